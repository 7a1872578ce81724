-- For each destination with all its endpoints: how many are paused, have an open circuit breaker, and are failing.
SELECT split_part(name, '/', 1),
       count(*) FILTER (WHERE paused_at IS NOT NULL),
       count(*) FILTER (WHERE open_until > statement_timestamp()),
       count(*) FILTER (WHERE failing_since IS NOT NULL)
FROM duebox_destination_state WHERE name LIKE 'to:%%'
GROUP BY 1
