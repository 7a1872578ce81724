-- Some of the changes that nobody else is working on, removed: the transaction that takes them plans them.
DELETE FROM duebox_row_change
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_row_change WHERE id <> ALL(%(busy)s::bigint[]) ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, source, key
