-- The data that decides whether deliveries can be changed: their status, the live worker that runs each, and the first
-- delivery of its stream for one that waits.
SELECT d.id, d.subscriber, d.status, d.lease IS NOT NULL,
       d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp()), w.name, head.id
FROM duebox_delivery d
LEFT JOIN duebox_worker w ON w.id = d.lease AND w.expires_at > statement_timestamp()
LEFT JOIN LATERAL (
    SELECT first.id FROM duebox_delivery first
    WHERE d.status = 'waiting' AND first.subscriber = d.subscriber AND first.stream = d.stream
    ORDER BY first.id LIMIT 1
) head ON true
WHERE d.id = ANY(%(id)s::bigint[])
