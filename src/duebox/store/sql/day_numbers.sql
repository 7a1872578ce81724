-- The numbers of the last day, from a bounded number of rows: the beginning of the day in the history is found by
-- bisection of the ids, and of more attempts than `sample` only that many are read, one of each part of the range.
-- Also: how many schedules are to come, counted up to a limit, above it the estimate of the index; and how many
-- deliveries died in that day and are still dead.
WITH RECURSIVE clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '24 hours' AS since
), search AS (
    SELECT ends.low, ends.high + 1 AS high
    FROM (
        SELECT (SELECT id FROM duebox_attempt ORDER BY id LIMIT 1) AS low,
               (SELECT id FROM duebox_attempt ORDER BY id DESC LIMIT 1) AS high
    ) ends
    WHERE ends.low IS NOT NULL
    UNION ALL
    SELECT CASE WHEN probe.settled_at < clock.since THEN probe.id + 1 ELSE search.low END,
           CASE WHEN probe.settled_at < clock.since THEN search.high ELSE (search.low + search.high) / 2 END
    FROM search CROSS JOIN clock
    LEFT JOIN LATERAL (
        SELECT a.id, a.settled_at FROM duebox_attempt a
        WHERE a.id >= (search.low + search.high) / 2 ORDER BY a.id LIMIT 1
    ) probe ON true
    WHERE search.low < search.high
), span AS (
    SELECT found.first, found.total, least(found.total, %(sample)s::bigint) AS tried
    FROM (
        SELECT max(low) AS first, (SELECT id FROM duebox_attempt ORDER BY id DESC LIMIT 1) - max(low) + 1 AS total
        FROM search
    ) found
    WHERE found.total > 0
), picked AS MATERIALIZED (
    SELECT span.first + floor((place + random()) * span.total / span.tried)::bigint AS id
    FROM span CROSS JOIN LATERAL generate_series(0, span.tried - 1) AS place
), attempts AS (
    SELECT count(*) FILTER (WHERE a.outcome = 'delivered') AS delivered,
           count(*) FILTER (WHERE a.outcome IN ('delivered', 'dead')) AS ended,
           count(*) FILTER (WHERE a.outcome IN ('delivered', 'dead') AND a.number > 1) AS retried,
           avg(extract(epoch FROM a.settled_at - a.due_at)) FILTER (WHERE a.outcome = 'delivered') AS seconds,
           (SELECT span.total::float8 / span.tried FROM span) AS scale
    FROM picked JOIN duebox_attempt a ON a.id = picked.id
), dead AS (
    SELECT count(*) FILTER (WHERE letter.died_at > clock.since) AS count
    FROM clock CROSS JOIN (
        (SELECT died_at FROM duebox_delivery WHERE status = 'dead' ORDER BY id DESC LIMIT %(most)s)
        UNION ALL
        (SELECT died_at FROM duebox_delivery WHERE status = 'parked' ORDER BY id DESC LIMIT %(most)s)
    ) letter
), ahead AS (
    SELECT count(*) AS count FROM (
        SELECT FROM duebox_schedule WHERE status = 'scheduled' ORDER BY due_at, id LIMIT %(most)s
    ) counted
)
SELECT CASE WHEN ahead.count < %(most)s THEN ahead.count
            ELSE greatest(ahead.count, (
                SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('duebox_schedule_fire_due')
            )) END,
       round(coalesce(attempts.delivered * attempts.scale, 0))::bigint,
       dead.count,
       coalesce(attempts.seconds, 0)::float8,
       coalesce(100.0 * attempts.retried / nullif(attempts.ended, 0), 0)::float8
FROM attempts CROSS JOIN dead CROSS JOIN ahead
