-- A heartbeat. An expired lease is not renewed: no row is returned. It also notifies the worker's own channel, to
-- detect a listener that no longer receives notifications.
UPDATE duebox_worker
SET beat_at = statement_timestamp(), expires_at = statement_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(lease)s AND expires_at > statement_timestamp()
RETURNING CASE WHEN mode = 'listen' OR %(probe)s THEN pg_notify('duebox_' || id, '') END
