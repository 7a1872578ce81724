-- New deliveries of stored events to one subscriber, in this order and `step` seconds apart; the history names who
-- requested it.
WITH given AS (
    SELECT id, position FROM unnest(%(event)s::uuid[]) WITH ORDINALITY AS given (id, position)
), stored AS MATERIALIZED (
    -- Locked, so that retention does not remove them meanwhile.
    SELECT e.id, e.aggregate_type, e.aggregate_id FROM duebox_event e
    WHERE e.id = ANY(ARRAY(SELECT id FROM given)) AND NOT e.metadata ? 'duebox.payload_removed_at'
    ORDER BY e.id
    FOR KEY SHARE
), added AS (
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at)
    SELECT e.id, %(subscriber)s,
           CASE WHEN %(ordered)s AND e.aggregate_type <> '' THEN e.aggregate_type || ':' || e.aggregate_id END,
           coalesce(%(now)s::timestamptz, statement_timestamp())
               + greatest(0, %(delay)s + (given.position - 1) * %(step)s) * interval '1 second'
    FROM given JOIN stored e ON e.id = given.id
    ORDER BY given.position
    RETURNING id, event_id, subscriber, due_at
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'replayed', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM added ORDER BY id
), heard AS (
    -- The result of a task for the earlier delivery does not apply to this one.
    DELETE FROM duebox_sent_task h USING added WHERE h.subscriber = added.subscriber AND h.event_id = added.event_id
), woken AS (
    SELECT pg_notify('duebox', 'later') WHERE EXISTS (SELECT FROM added)
)
SELECT id, (SELECT count(*) FROM woken) FROM added ORDER BY id
