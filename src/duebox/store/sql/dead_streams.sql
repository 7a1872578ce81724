-- Blocked streams, whose first delivery is dead, parked, or waits for its next attempt while others wait behind it; and
-- how many do, counted up to a limit. A limited number is compared: of the dead, of the parked, and of those that
-- others wait behind. The last are found with a loose index scan over waiting deliveries, from one stream to the next:
-- with 100,000 in two streams, two rows are read. The rows of a stream are read in the order of its index alone: with
-- equality conditions the planner may prefer to scan the table, from its other end.
WITH RECURSIVE waiting AS (
    (
        SELECT d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'waiting' AND (%(subscriber)s::text IS NULL OR d.subscriber = %(subscriber)s)
        ORDER BY d.subscriber, d.stream LIMIT 1
    )
    UNION ALL
    SELECT following.subscriber, following.stream
    FROM waiting CROSS JOIN LATERAL (
        SELECT d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'waiting' AND (d.subscriber, d.stream) > (waiting.subscriber, waiting.stream)
          AND (%(subscriber)s::text IS NULL OR d.subscriber = %(subscriber)s)
        ORDER BY d.subscriber, d.stream LIMIT 1
    ) following
), gone AS (
    (
        SELECT d.id, d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'dead' AND d.stream IS NOT NULL
          AND (%(subscriber)s::text IS NULL OR d.subscriber = %(subscriber)s)
        ORDER BY d.id LIMIT %(look)s
    )
    UNION ALL
    (
        SELECT d.id, d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'parked' AND d.stream IS NOT NULL
          AND (%(subscriber)s::text IS NULL OR d.subscriber = %(subscriber)s)
        ORDER BY d.id LIMIT %(look)s
    )
), head AS MATERIALIZED (
    SELECT first.id, gone.subscriber, gone.stream
    FROM gone CROSS JOIN LATERAL (
        SELECT d.id FROM duebox_delivery d
        WHERE d.stream IS NOT NULL AND (d.subscriber, d.stream, d.id) >= (gone.subscriber, gone.stream, 0)
        ORDER BY d.subscriber, d.stream, d.id LIMIT 1
    ) first
    WHERE first.id = gone.id
    UNION
    (
        SELECT first.id, waiting.subscriber, waiting.stream
        FROM waiting CROSS JOIN LATERAL (
            SELECT d.id, d.status, d.lease, d.due_at FROM duebox_delivery d
            WHERE d.stream IS NOT NULL AND (d.subscriber, d.stream, d.id) >= (waiting.subscriber, waiting.stream, 0)
            ORDER BY d.subscriber, d.stream, d.id LIMIT 1
        ) first
        WHERE first.status IN ('dead', 'parked')
           OR (first.status = 'pending' AND first.lease IS NULL
               AND first.due_at > coalesce(%(now)s::timestamptz, statement_timestamp()))
        LIMIT %(look)s
    )
), blocked AS MATERIALIZED (
    SELECT head.*, behind.count
    FROM head CROSS JOIN LATERAL (
        SELECT count(*) FROM (
            SELECT FROM duebox_delivery d
            WHERE d.stream IS NOT NULL AND (d.subscriber, d.stream, d.id) > (head.subscriber, head.stream, head.id)
              AND (d.subscriber, d.stream) <= (head.subscriber, head.stream)
            ORDER BY d.subscriber, d.stream, d.id LIMIT %(most)s
        ) counted
    ) behind
    ORDER BY behind.count DESC, head.id
    LIMIT %(limit)s
)
SELECT blocked.subscriber, blocked.stream, d.id, d.event_id::text, d.status, d.attempt, d.due_at, blocked.count,
       coalesce(d.died_at, stopped.at, d.due_at)
FROM blocked
JOIN duebox_delivery d ON d.id = blocked.id
LEFT JOIN LATERAL (
    SELECT min(attempt.settled_at) AS at FROM duebox_attempt attempt
    WHERE attempt.event_id = d.event_id AND attempt.delivery_id = d.id
      AND attempt.outcome IN ('retried', 'snoozed', 'rescued', 'redriven', 'replayed')
) stopped ON true
ORDER BY blocked.count DESC, d.id
