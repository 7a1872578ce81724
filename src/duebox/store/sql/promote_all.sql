-- Every parked delivery that has become the head of its stream; heals what a crash between settling and
-- promoting left behind. It runs in the heartbeat, so it waits for nobody; the next one comes soon.
UPDATE duebox_delivery SET status = 'pending'
WHERE status = 'waiting' AND id = ANY(ARRAY(
    SELECT d.id FROM duebox_delivery d
    WHERE d.status = 'waiting' AND NOT EXISTS (
        SELECT FROM duebox_delivery earlier
        WHERE earlier.subscriber = d.subscriber AND earlier.stream = d.stream AND earlier.id < d.id
    )
    ORDER BY d.id
    FOR UPDATE OF d SKIP LOCKED
))
