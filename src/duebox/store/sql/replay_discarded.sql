-- Events that a disabled endpoint missed since then, and that are neither open nor delivered by now. Of each event the
-- first such line of the history counts.
SELECT missed.id, missed.event_id::text
FROM duebox_attempt missed
WHERE missed.subscriber = %(subscriber)s AND missed.subscriber LIKE '%%/%%' AND missed.id > %(after)s
  AND missed.settled_at >= %(since)s
  AND missed.outcome = 'discarded' AND missed.note ILIKE '%%the endpoint is disabled%%'
  AND NOT EXISTS (
      SELECT FROM duebox_attempt other
      WHERE other.event_id = missed.event_id AND other.subscriber = missed.subscriber
        AND (other.outcome = 'delivered' OR (
            other.id < missed.id AND other.settled_at >= %(since)s
            AND other.outcome = 'discarded' AND other.note ILIKE '%%the endpoint is disabled%%'
        ))
  )
  AND NOT EXISTS (
      SELECT FROM duebox_delivery d WHERE d.event_id = missed.event_id AND d.subscriber = missed.subscriber
  )
  AND EXISTS (
      SELECT FROM duebox_event e WHERE e.id = missed.event_id AND NOT e.metadata ? 'duebox.payload_removed_at'
  )
ORDER BY missed.id
LIMIT %(limit)s
