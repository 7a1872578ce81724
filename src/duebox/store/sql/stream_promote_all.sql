-- Every waiting delivery that has become the head of its stream; repairs streams after a crash between settling and
-- promoting. It runs in the heartbeat, so it skips locked rows; the next one comes soon. The streams are found with a
-- loose index scan: comparing each waiting delivery with those before it took minutes with 100,000 in two streams.
WITH RECURSIVE waiting AS (
    (SELECT subscriber, stream FROM duebox_delivery WHERE status = 'waiting' ORDER BY subscriber, stream LIMIT 1)
    UNION ALL
    SELECT following.subscriber, following.stream
    FROM waiting CROSS JOIN LATERAL (
        SELECT d.subscriber, d.stream FROM duebox_delivery d
        WHERE d.status = 'waiting' AND (d.subscriber, d.stream) > (waiting.subscriber, waiting.stream)
        ORDER BY d.subscriber, d.stream LIMIT 1
    ) following
)
UPDATE duebox_delivery SET status = 'pending'
WHERE status = 'waiting' AND id = ANY(ARRAY(
    SELECT d.id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT id FROM duebox_delivery first
        WHERE first.subscriber = waiting.subscriber AND first.stream = waiting.stream
        ORDER BY first.id LIMIT 1
    ) head
    JOIN duebox_delivery d ON d.id = head.id
    WHERE d.status = 'waiting'
    ORDER BY d.id
    FOR UPDATE OF d SKIP LOCKED
))
