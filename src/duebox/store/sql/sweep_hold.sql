-- Lock dead letters, so that nobody redrives them meanwhile. One that somebody else has locked is left to them.
SELECT id FROM duebox_delivery
WHERE id = ANY(%(id)s::bigint[]) AND status = 'dead'
ORDER BY id
FOR UPDATE SKIP LOCKED
