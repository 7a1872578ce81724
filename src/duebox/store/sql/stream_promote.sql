-- The head of each of these streams becomes due again, if it was waiting for one that is settled now. Locked in
-- the order of ids, so that two workers with streams in common do not deadlock; not skipped when locked, since a claim
-- may hold such a row for a moment and then leave it as it was.
UPDATE duebox_delivery SET status = 'pending'
WHERE status = 'waiting' AND id = ANY(ARRAY(
    SELECT d.id FROM duebox_delivery d
    WHERE d.status = 'waiting' AND d.id = ANY(ARRAY(
        SELECT head.id
        FROM unnest(%(subscriber)s::text[], %(stream)s::text[]) AS freed (subscriber, stream)
        CROSS JOIN LATERAL (
            SELECT id FROM duebox_delivery first
            WHERE first.subscriber = freed.subscriber AND first.stream = freed.stream
            ORDER BY first.id LIMIT 1
        ) head
    ))
    ORDER BY d.id
    FOR UPDATE OF d
))
RETURNING id
