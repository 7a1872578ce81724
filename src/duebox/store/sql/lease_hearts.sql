-- The leases of one host, each with the seconds since its last heartbeat and those that it is still good for. Both
-- on the database's clock: a host whose own clock is wrong is no less alive.
SELECT name, mode,
    extract(epoch FROM statement_timestamp() - beat_at)::float8,
    extract(epoch FROM expires_at - statement_timestamp())::float8
FROM duebox_worker
WHERE starts_with(name, %(host)s || ':')
ORDER BY started_at, id
