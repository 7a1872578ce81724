-- Some of the changes that nobody else is working on, removed: the transaction that takes them plans them. Either those
-- of one row each, or those of many; not those of all rows. Those of types that this process does not know are left.
DELETE FROM duebox_row_change
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_row_change
    WHERE (keys IS NOT NULL) = %(many)s AND key <> '' AND source = ANY(%(sources)s::text[])
      AND id <> ALL(%(busy)s::bigint[])
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, source, coalesce(keys, ARRAY[key])
