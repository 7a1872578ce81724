-- The changes of these rows, removed: the transaction that takes them plans them. Those that another transaction works on
-- are left to it: to wait for it could be a deadlock, since it waits for the rows.
DELETE FROM duebox_row_change
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_row_change WHERE source = %(source)s AND key = ANY(%(keys)s::text[]) FOR UPDATE SKIP LOCKED
))
