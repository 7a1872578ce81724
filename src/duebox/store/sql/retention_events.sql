-- The next old events, in the order of their ids. For each: whether its idempotency key must stay longer, whether its
-- payload was removed already, and whether it must not change because a delivery is open. An id holds the time of the
-- host that emitted the event, and the clock of that host may be slow. So an event is old only if the database recorded
-- it before that time, too.
-- The key of an event that a schedule or a sweep emitted need not be remembered: the row of the schedule, or the stamp of the
-- swept row, says that it happened. Such keys begin with the name of the schedule or the sweep.
-- Deliveries are looked up by = ANY(ARRAY(...)): with a join the planner may read the whole table.
WITH page AS MATERIALIZED (
    SELECT id, recorded_at, metadata ? 'duebox.payload_removed_at' AS is_bare,
           idempotency_key IS NOT NULL
               AND (%(keys_before)s::uuid IS NULL OR id >= %(keys_before)s::uuid OR recorded_at >= %(keys_before_at)s)
               AND NOT coalesce(starts_with(idempotency_key, (metadata #>> '{schedule,key}') || '/'), false)
               AND NOT coalesce(starts_with(idempotency_key, (metadata ->> 'sweep') || ':'), false) AS holds_key
    FROM duebox_event
    WHERE id > %(after)s::uuid AND id < %(before)s::uuid
    ORDER BY id
    LIMIT %(limit)s
), open AS MATERIALIZED (
    SELECT DISTINCT event_id FROM duebox_delivery WHERE event_id = ANY(ARRAY(SELECT id FROM page))
)
SELECT page.id::text, page.holds_key, page.is_bare, open.event_id IS NOT NULL OR page.recorded_at >= %(before_at)s
FROM page LEFT JOIN open ON open.event_id = page.id
ORDER BY page.id
