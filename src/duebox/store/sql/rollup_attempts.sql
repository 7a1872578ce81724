-- The attempts of some minutes by subscriber, outcome, and how late and how long they were. Endpoints of webhooks are
-- summed by their destination. Only those that ran have a start.
SELECT date_bin('1 minute', settled_at, 'epoch'), split_part(subscriber, '/', 1), outcome,
       number = 1,
       width_bucket(late_ms, %(bounds)s::float8[]),
       width_bucket(took_ms, %(bounds)s::float8[]),
       count(*), sum(late_ms), sum(took_ms)
FROM duebox_attempt
CROSS JOIN LATERAL (
    SELECT CASE WHEN started_at > due_at THEN extract(epoch FROM started_at - due_at)::float8 * 1000
                WHEN started_at IS NOT NULL THEN 0 END AS late_ms
) late
WHERE id >= %(from)s AND id < %(until)s AND settled_at >= %(since)s AND settled_at < %(before)s
GROUP BY 1, 2, 3, 4, 5, 6
