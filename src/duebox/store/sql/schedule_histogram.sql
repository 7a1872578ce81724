-- How many schedules fire in each of the given spans; of each span no more than the limit is counted.
SELECT span.number, counted.many
FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS span (first, before, number)
CROSS JOIN LATERAL (
    SELECT count(*) AS many FROM (
        SELECT FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at >= span.first AND due_at < span.before
        ORDER BY due_at, id LIMIT %(most)s
    ) within
) counted
ORDER BY span.number
