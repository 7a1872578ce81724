-- Delivered: out of the hot table, into the history, in one statement.
-- Only what the lease still owns is touched; the ids that were are returned.
WITH ended AS (
    SELECT * FROM unnest(%(id)s::bigint[], %(started)s::float8[], %(took_ms)s::float8[]) AS ended (id, started, took_ms)
), gone AS (
    DELETE FROM duebox_delivery
    WHERE id = ANY(%(id)s::bigint[]) AND lease = %(lease)s
    RETURNING id, event_id, subscriber, attempt, due_at
), told AS (
    INSERT INTO duebox_attempt (
        event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at, took_ms, lease
    )
    SELECT gone.event_id, gone.id, gone.subscriber, gone.attempt + 1, 'delivered', gone.due_at,
           to_timestamp(ended.started), coalesce(%(now)s::timestamptz, statement_timestamp()), ended.took_ms, %(lease)s
    FROM gone JOIN ended ON ended.id = gone.id
    RETURNING delivery_id
)
SELECT array_agg(delivery_id) FROM told
