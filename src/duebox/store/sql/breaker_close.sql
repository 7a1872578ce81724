-- Close the circuit breaker: the destination works again. A late success of a call that began before the pause does not
-- end it.
UPDATE duebox_destination_state
SET failing_since = NULL, error = '', changed_at = statement_timestamp(),
    open_until = CASE WHEN %(probed)s THEN NULL ELSE open_until END,
    opened = CASE WHEN %(probed)s THEN 0 ELSE opened END
WHERE name = %(name)s AND (failing_since IS NOT NULL OR open_until IS NOT NULL)
