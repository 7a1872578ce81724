-- The changes of these rows alone, removed: the transaction that takes them plans them. A worker that has taken them
-- waits for these rows, but not long enough for a deadlock.
DELETE FROM duebox_row_change WHERE source = %(source)s AND key = ANY(%(keys)s::text[]) AND keys IS NULL
