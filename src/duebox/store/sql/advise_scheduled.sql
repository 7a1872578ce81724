-- How many schedules are to come, counted up to a limit.
SELECT count(*) FROM (
    SELECT FROM duebox_schedule WHERE status = 'scheduled' ORDER BY due_at, id LIMIT %(most)s
) counted
