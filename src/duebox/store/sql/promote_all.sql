-- Every parked delivery that has become the head of its stream; repairs streams after a crash between settling and
-- promoting. It runs in the heartbeat, so it skips locked rows; the next one comes soon. The streams are found with a
-- loose index scan: comparing each parked delivery with those before it took minutes with 100,000 in two streams.
WITH RECURSIVE parked AS (
    (SELECT subscriber, stream FROM duebox_delivery WHERE status = 'waiting' ORDER BY subscriber, stream LIMIT 1)
    UNION ALL
    SELECT following.subscriber, following.stream
    FROM parked CROSS JOIN LATERAL (
        SELECT d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'waiting' AND (d.subscriber, d.stream) > (parked.subscriber, parked.stream)
        ORDER BY d.subscriber, d.stream LIMIT 1
    ) following
)
UPDATE duebox_delivery SET status = 'pending'
WHERE status = 'waiting' AND id = ANY(ARRAY(
    SELECT d.id
    FROM parked
    CROSS JOIN LATERAL (
        SELECT id FROM duebox_delivery first
        WHERE first.subscriber = parked.subscriber AND first.stream = parked.stream
        ORDER BY first.id LIMIT 1
    ) head
    JOIN duebox_delivery d ON d.id = head.id
    WHERE d.status = 'waiting'
    ORDER BY d.id
    FOR UPDATE OF d SKIP LOCKED
))
