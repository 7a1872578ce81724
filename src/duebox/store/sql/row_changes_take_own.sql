-- What triggers have noted of one row, removed by the transaction that plans it after a save. Outside of a transaction of
-- the caller it need not wait for the disk: if its commit is lost in a crash, the note is still there.
DELETE FROM duebox_row_change WHERE source = ANY(%(sources)s::text[]) AND key = %(key)s AND keys IS NULL
RETURNING CASE WHEN %(is_alone)s THEN set_config('synchronous_commit', 'off', true) END
