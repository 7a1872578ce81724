-- Lock deliveries that somebody wants to change, in the order of their ids so that two who ask for the same do not
-- deadlock. What a living worker holds is left out: its settlement must not wait for us, nor we for it. One that is claimed
-- at this very moment may be locked all the same; delivery_standing.sql, with a younger snapshot, says who holds it.
SELECT d.id FROM duebox_delivery d
WHERE d.id = ANY(%(id)s::bigint[])
  AND (d.lease IS NULL OR NOT EXISTS (
      SELECT FROM duebox_worker w WHERE w.id = d.lease AND w.expires_at > statement_timestamp()
  ))
ORDER BY d.id
FOR UPDATE OF d
