-- By subscriber: how many deliveries are due, running, to be retried and to come later, and since when the oldest is
-- due. It reads a limited number of rows, however many there are: of handlers the oldest that are due and the first
-- that are not, of each destination its share. The destinations are found with a loose index scan.
WITH RECURSIVE named AS (
    (
        SELECT subscriber, 1 AS place FROM duebox_delivery
        WHERE status = 'pending' AND subscriber LIKE 'to:%%'
        ORDER BY subscriber LIMIT 1
    )
    UNION ALL
    SELECT following.subscriber, named.place + 1
    FROM named CROSS JOIN LATERAL (
        SELECT d.subscriber FROM duebox_delivery d
        WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber > named.subscriber
        ORDER BY d.subscriber LIMIT 1
    ) following
    WHERE named.place < %(names)s
), due AS MATERIALIZED (
    SELECT subscriber, due_at, lease, attempt FROM duebox_delivery
    WHERE status = 'pending' AND NOT subscriber LIKE 'to:%%'
      AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
    ORDER BY due_at, id LIMIT %(most)s
), later AS MATERIALIZED (
    SELECT subscriber, due_at, lease, attempt FROM duebox_delivery
    WHERE status = 'pending' AND NOT subscriber LIKE 'to:%%'
      AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
    ORDER BY due_at, id LIMIT %(most)s
), share AS MATERIALIZED (
    SELECT %(most)s / greatest(1, count(*)) + 1 AS most FROM named
), outside AS MATERIALIZED (
    SELECT d.* FROM named CROSS JOIN LATERAL (
        SELECT d.subscriber, d.due_at, d.lease, d.attempt FROM duebox_delivery d
        WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber = named.subscriber
        ORDER BY d.due_at, d.id LIMIT (SELECT most FROM share)
    ) d
), counted AS (
    SELECT subscriber, count(*) FILTER (WHERE lease IS NULL) AS due, count(lease) AS running, 0 AS retrying, 0 AS later,
           min(due_at) FILTER (WHERE lease IS NULL) AS oldest, (SELECT count(*) FROM due) >= %(most)s AS more_due,
           false AS more_later
    FROM due GROUP BY subscriber
    UNION ALL
    SELECT subscriber, 0, count(lease), count(*) FILTER (WHERE lease IS NULL AND attempt > 0),
           count(*) FILTER (WHERE lease IS NULL AND attempt = 0), min(due_at), false, (SELECT count(*) FROM later) >= %(most)s
    FROM later GROUP BY subscriber
    UNION ALL
    SELECT subscriber,
           count(*) FILTER (WHERE lease IS NULL AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())),
           count(lease),
           count(*) FILTER (
               WHERE lease IS NULL AND attempt > 0 AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
           ),
           count(*) FILTER (
               WHERE lease IS NULL AND attempt = 0 AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
           ),
           min(due_at) FILTER (WHERE lease IS NULL),
           count(*) >= (SELECT most FROM share) AND max(due_at) <= coalesce(%(now)s::timestamptz, statement_timestamp()),
           count(*) >= (SELECT most FROM share)
    FROM outside GROUP BY subscriber
)
SELECT counted.subscriber, sum(counted.due)::bigint, sum(counted.running)::bigint, sum(counted.retrying)::bigint,
       sum(counted.later)::bigint, min(counted.oldest), bool_or(counted.more_due), bool_or(counted.more_later),
       bool_or(coalesce(state.paused_at, whole.paused_at) IS NOT NULL
               OR coalesce(state.open_until > statement_timestamp(), false))
FROM counted
LEFT JOIN duebox_destination_state state ON state.name = counted.subscriber
LEFT JOIN duebox_destination_state whole ON whole.name = split_part(counted.subscriber, '/', 1)
GROUP BY counted.subscriber
ORDER BY counted.subscriber
