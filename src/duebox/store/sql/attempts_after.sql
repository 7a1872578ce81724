-- Attempts behind a cursor, in the order of their ids, with their events and with what is left of their deliveries; and
-- those that were missing when the cursor passed them, because their transactions had not ended.
SELECT a.id, a.event_id::text, coalesce(e.type, ''), coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''),
       coalesce(e.correlation_id, ''), e.causation_id::text, e.metadata -> 'schedule' ->> 'due', a.delivery_id, a.subscriber,
       a.number, a.outcome, a.due_at, a.started_at, a.settled_at, a.took_ms, a.note, a.status, d.due_at
FROM (
    (SELECT * FROM duebox_attempt WHERE id > %(after)s ORDER BY id LIMIT %(limit)s)
    UNION ALL
    SELECT * FROM duebox_attempt WHERE id = ANY(%(missing)s::bigint[])
) a
LEFT JOIN duebox_event e ON e.id = a.event_id
LEFT JOIN duebox_delivery d ON d.id = a.delivery_id
ORDER BY a.id
