-- Lock deliveries for a change, in the order of their ids so that two concurrent changes do not deadlock. Those that a
-- live worker holds are left out: neither must wait for the other. One that is claimed at this very moment may be
-- locked nevertheless; delivery_states.sql, with a newer snapshot, shows its worker.
SELECT d.id FROM duebox_delivery d
WHERE d.id = ANY(%(id)s::bigint[])
  AND (d.lease IS NULL OR NOT EXISTS (
      SELECT FROM duebox_worker w WHERE w.id = d.lease AND w.expires_at > statement_timestamp()
  ))
ORDER BY d.id
FOR UPDATE OF d
