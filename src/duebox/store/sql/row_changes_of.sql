-- Of schedules, those whose row has a change that is not planned yet.
SELECT s.id
FROM unnest(%(ids)s::bigint[], %(sources)s::text[], %(keys)s::text[]) AS s (id, source, key)
WHERE EXISTS (SELECT FROM duebox_row_change c WHERE c.source = s.source AND c.key IN (s.key, ''))
   OR EXISTS (
       SELECT FROM duebox_row_change c WHERE c.source = s.source AND c.keys IS NOT NULL AND s.key = ANY(c.keys)
   )
