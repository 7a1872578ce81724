-- Lock dead letters, so that they are not retried meanwhile. Those that another transaction has locked are skipped.
SELECT id FROM duebox_delivery
WHERE id = ANY(%(id)s::bigint[]) AND status = 'dead'
ORDER BY id
FOR UPDATE SKIP LOCKED
