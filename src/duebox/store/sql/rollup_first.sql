-- The time of the oldest rows that could be counted: of events by their ids, of attempts and of the schedule log.
SELECT (SELECT id::text FROM duebox_event ORDER BY id LIMIT 1),
       (SELECT settled_at FROM duebox_attempt ORDER BY id LIMIT 1),
       (SELECT at FROM duebox_schedule_log ORDER BY id LIMIT 1)
