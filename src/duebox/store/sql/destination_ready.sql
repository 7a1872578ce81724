-- The destinations with deliveries, the seconds until their first is due, and the state of each of them. The names are
-- found with a loose index scan: many deliveries that wait for one destination cost nothing.
WITH RECURSIVE named AS (
    (
        SELECT subscriber FROM duebox_delivery
        WHERE status = 'pending' AND subscriber LIKE 'to:%%'
        ORDER BY subscriber LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.subscriber FROM duebox_delivery d
        WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber > named.subscriber
        ORDER BY d.subscriber LIMIT 1
    )
    FROM named WHERE named.subscriber IS NOT NULL
)
SELECT named.subscriber,
       extract(epoch FROM first.due_at - coalesce(%(now)s::timestamptz, statement_timestamp()))::float8,
       state.paused_at IS NOT NULL OR whole.paused_at IS NOT NULL,
       extract(epoch FROM state.open_until - statement_timestamp())::float8,
       extract(epoch FROM state.failing_since)::float8
FROM named
CROSS JOIN LATERAL (
    SELECT d.due_at FROM duebox_delivery d
    WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber = named.subscriber AND d.lease IS NULL
    ORDER BY d.due_at, d.id LIMIT 1
) first
LEFT JOIN duebox_destination_state state ON state.name = named.subscriber
-- Pausing `to:hooks` pauses all of `to:hooks/...`.
LEFT JOIN duebox_destination_state whole ON whole.name = split_part(named.subscriber, '/', 1)
WHERE named.subscriber IS NOT NULL
