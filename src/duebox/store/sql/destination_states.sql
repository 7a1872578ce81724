-- Every destination with deliveries or with a stored state. The table also has the tokens of handlers with a rate
-- limit, which are left out. The cost does not grow with the backlog: names are found with a loose index scan, and each
-- is counted up to a limit; endpoints, of which there may be thousands, share one limit. Of the dead, the newest are
-- counted.
WITH RECURSIVE pending_name AS (
    (
        SELECT subscriber, 1 AS place FROM duebox_delivery
        WHERE status = 'pending' AND subscriber LIKE 'to:%%'
        ORDER BY subscriber LIMIT 1
    )
    UNION ALL
    SELECT following.subscriber, last.place + 1
    FROM pending_name last CROSS JOIN LATERAL (
        SELECT d.subscriber FROM duebox_delivery d
        WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber > last.subscriber
        ORDER BY d.subscriber LIMIT 1
    ) following
    WHERE last.place < %(names)s
), waiting_name AS (
    (SELECT subscriber, 1 AS place FROM duebox_delivery WHERE status = 'waiting' ORDER BY subscriber LIMIT 1)
    UNION ALL
    SELECT following.subscriber, last.place + 1
    FROM waiting_name last CROSS JOIN LATERAL (
        SELECT d.subscriber FROM duebox_delivery d
        WHERE d.status = 'waiting' AND d.subscriber > last.subscriber
        ORDER BY d.subscriber LIMIT 1
    ) following
    WHERE last.place < %(names)s
), share AS MATERIALIZED (
    SELECT greatest(%(least)s, %(most)s / greatest(1, count(*))) AS most
    FROM pending_name WHERE strpos(subscriber, '/') > 0
), open AS (
    SELECT name.subscriber, counted.many, counted.many > bound.most AS more, bound.most
    FROM pending_name name
    CROSS JOIN LATERAL (
        SELECT CASE WHEN strpos(name.subscriber, '/') > 0 THEN (SELECT most FROM share) ELSE %(most)s END AS most
    ) bound
    CROSS JOIN LATERAL (
        SELECT count(*) AS many FROM (
            SELECT FROM duebox_delivery d
            WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%' AND d.subscriber = name.subscriber
            ORDER BY d.due_at, d.id LIMIT bound.most + 1
        ) within
    ) counted
    UNION ALL
    SELECT name.subscriber, counted.many, counted.many > bound.most, bound.most
    FROM waiting_name name
    CROSS JOIN LATERAL (
        SELECT CASE WHEN strpos(name.subscriber, '/') > 0 THEN (SELECT most FROM share) ELSE %(most)s END AS most
    ) bound
    CROSS JOIN LATERAL (
        SELECT count(*) AS many FROM (
            SELECT FROM duebox_delivery d
            WHERE d.status = 'waiting' AND d.subscriber = name.subscriber
            ORDER BY d.stream, d.id LIMIT bound.most + 1
        ) within
    ) counted
    WHERE name.subscriber LIKE 'to:%%'
), dead AS (
    SELECT subscriber, count(*) AS many
    FROM (
        SELECT subscriber FROM duebox_delivery WHERE status = 'dead' ORDER BY id DESC LIMIT %(most)s
    ) newest
    WHERE subscriber LIKE 'to:%%'
    GROUP BY subscriber
), counted AS (
    SELECT subscriber, least(sum(waiting), max(most))::bigint AS waiting, bool_or(more) OR sum(waiting) > max(most) AS more,
           sum(dead)::bigint AS dead
    FROM (
        SELECT subscriber, many AS waiting, more, most, 0 AS dead FROM open
        UNION ALL
        SELECT subscriber, 0, false, %(most)s, many FROM dead
    ) parts
    GROUP BY subscriber
)
SELECT coalesce(state.name, counted.subscriber), coalesce(counted.waiting, 0), coalesce(counted.dead, 0),
       state.paused_at, coalesce(state.paused_note, ''), state.open_until, state.failing_since, coalesce(state.error, ''),
       coalesce(counted.more, false)
FROM counted
FULL JOIN (SELECT * FROM duebox_destination_state WHERE name LIKE 'to:%%') state ON state.name = counted.subscriber
ORDER BY 1
