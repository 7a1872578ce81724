-- The event types of dead letters. The index of the dead, and that of the parked, lead to their rows, the key of each to
-- its event.
SELECT DISTINCT event.type
FROM (
    SELECT event_id FROM duebox_delivery WHERE status = 'dead'
    UNION ALL
    SELECT event_id FROM duebox_delivery WHERE status = 'parked'
) gone
JOIN duebox_event event ON event.id = gone.event_id
