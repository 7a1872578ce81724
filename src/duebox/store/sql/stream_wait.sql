-- Give the status "waiting" to deliveries behind the heads of a few streams, some of each, in one statement, so that claims
-- need not read them all. In each stream it continues after the last time. Returns how many in each stream, and the last
-- of them.
WITH waiting AS (
    UPDATE duebox_delivery SET status = 'waiting'
    WHERE ctid = ANY(ARRAY(
        SELECT behind.place
        FROM unnest(%(subscriber)s::text[], %(stream)s::text[], %(after)s::bigint[]) AS blocked (subscriber, stream, after)
        CROSS JOIN LATERAL (
            SELECT id FROM duebox_delivery first
            WHERE first.subscriber = blocked.subscriber AND first.stream = blocked.stream
            ORDER BY first.id LIMIT 1
        ) head
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place
            FROM duebox_delivery d
            WHERE d.subscriber = blocked.subscriber AND d.stream = blocked.stream
              AND d.id > greatest(head.id, blocked.after)
              AND d.status = 'pending' AND d.lease IS NULL
              AND d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
            ORDER BY d.id
            LIMIT %(limit)s
            FOR UPDATE OF d SKIP LOCKED
        ) behind
    ))
    RETURNING id, subscriber, stream
)
SELECT subscriber, stream, count(*), max(id) FROM waiting GROUP BY subscriber, stream
