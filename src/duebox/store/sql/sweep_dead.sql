-- The events of a sweep that ended as dead letters, oldest first: the row that each is about, the stamp that the row
-- got with it, and its letters. A letter with a stream blocks the ones behind it until a person decides.
-- The partial index of dead letters finds them; the event of each is read by its key.
SELECT e.id, e.aggregate_id, e.metadata ->> 'stamped_at', array_agg(d.id), array_agg(d.subscriber)
FROM duebox_delivery d
JOIN duebox_event e ON e.id = d.event_id
WHERE d.status = 'dead'
  AND d.stream IS NULL
  AND d.subscriber = ANY(%(subscribers)s)
  AND e.id > %(after)s
  AND e.metadata ->> 'sweep' = %(sweep)s
  AND e.metadata ->> 'stamped_at' IS NOT NULL
GROUP BY e.id
ORDER BY e.id
LIMIT %(limit)s
