-- The leases of one host, each with the seconds since its last heartbeat and until it expires. Both on the database's
-- clock, because the clock of the host may be wrong.
SELECT name, mode,
    extract(epoch FROM statement_timestamp() - beat_at)::float8,
    extract(epoch FROM expires_at - statement_timestamp())::float8
FROM duebox_worker
WHERE starts_with(name, %(host)s || ':')
ORDER BY started_at, id
