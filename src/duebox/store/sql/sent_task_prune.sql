-- Remove the rows of tasks whose delivery is settled.
DELETE FROM duebox_sent_task h
WHERE h.subscriber = %(subscriber)s
  AND NOT EXISTS (SELECT FROM duebox_delivery d WHERE d.event_id = h.event_id AND d.subscriber = h.subscriber)
