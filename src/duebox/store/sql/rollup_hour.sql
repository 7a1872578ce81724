-- One hour from its minutes. A gauge has its highest reading.
WITH minutes AS MATERIALIZED (
    SELECT * FROM duebox_rollup
    WHERE span = 1 AND minute >= %(hour)s AND minute < %(hour)s::timestamptz + interval '1 hour'
), bucket AS (
    SELECT kind, name, which, place, sum(n)::int AS n
    FROM minutes CROSS JOIN LATERAL (
        SELECT 'lateness' AS which, place, n FROM unnest(lateness) WITH ORDINALITY AS each (n, place)
        UNION ALL SELECT 'wait', place, n FROM unnest(wait) WITH ORDINALITY AS each (n, place)
        UNION ALL SELECT 'duration', place, n FROM unnest(duration) WITH ORDINALITY AS each (n, place)
    ) each
    GROUP BY kind, name, which, place
), histogram AS (
    SELECT kind, name,
           array_agg(n ORDER BY place) FILTER (WHERE which = 'lateness') AS lateness,
           array_agg(n ORDER BY place) FILTER (WHERE which = 'wait') AS wait,
           array_agg(n ORDER BY place) FILTER (WHERE which = 'duration') AS duration
    FROM bucket GROUP BY kind, name
)
INSERT INTO duebox_rollup (
    span, kind, name, minute, count, delivered, retried, dead, snoozed, discarded, expired, rescued, repeated,
    lateness_ms, lateness, wait_ms, wait, duration_ms, duration
)
SELECT 60, kind, name, %(hour)s, CASE WHEN kind = 'gauge' THEN max(count) ELSE sum(count) END,
       sum(delivered), sum(retried), sum(dead), sum(snoozed), sum(discarded), sum(expired), sum(rescued),
       sum(repeated), sum(lateness_ms), histogram.lateness, sum(wait_ms), histogram.wait, sum(duration_ms), histogram.duration
FROM minutes LEFT JOIN histogram USING (kind, name)
GROUP BY kind, name, histogram.lateness, histogram.wait, histogram.duration
