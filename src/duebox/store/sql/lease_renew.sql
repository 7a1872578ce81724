-- A heartbeat. A lease that ran out stays out: no row comes back. The worker's own channel hears of it, which is
-- how a listener that has gone deaf is found out.
UPDATE duebox_worker
SET beat_at = statement_timestamp(), expires_at = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(lease)s AND expires_at > statement_timestamp()
RETURNING CASE WHEN mode = 'listen' OR %(probe)s THEN pg_notify('duebox_' || id, '') END
