-- Park what stands behind the heads of a few streams, some of each: in one go, so that claims need not meet them all.
-- Of each stream it goes on where it was the last time. Gives how many of which were parked, and the last of them.
WITH parked AS (
    UPDATE duebox_delivery SET status = 'waiting'
    WHERE ctid = ANY(ARRAY(
        SELECT behind.place
        FROM unnest(%(subscriber)s::text[], %(stream)s::text[], %(after)s::bigint[]) AS crowd (subscriber, stream, after)
        CROSS JOIN LATERAL (
            SELECT id FROM duebox_delivery first
            WHERE first.subscriber = crowd.subscriber AND first.stream = crowd.stream
            ORDER BY first.id LIMIT 1
        ) head
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place
            FROM duebox_delivery d
            WHERE d.subscriber = crowd.subscriber AND d.stream = crowd.stream
              AND d.id > greatest(head.id, crowd.after)
              AND d.status = 'pending' AND d.lease IS NULL
              AND d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
            ORDER BY d.id
            LIMIT %(limit)s
            FOR UPDATE OF d SKIP LOCKED
        ) behind
    ))
    RETURNING id, subscriber, stream
)
SELECT subscriber, stream, count(*), max(id) FROM parked GROUP BY subscriber, stream
