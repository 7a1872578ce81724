-- Rows of some minutes that were counted again and are not among the names now: above the limit another name may have
-- become one of `other`.
DELETE FROM duebox_rollup
WHERE span = 1 AND minute >= %(since)s AND minute < %(before)s AND kind <> 'gauge'
  AND NOT EXISTS (
      SELECT FROM unnest(%(kind)s::text[], %(name)s::text[], %(minute)s::timestamptz[]) AS given (kind, name, minute)
      WHERE given.kind = duebox_rollup.kind AND given.name = duebox_rollup.name AND given.minute = duebox_rollup.minute
  )
