-- Resume, and close the circuit breaker.
UPDATE duebox_destination_state
SET paused_at = NULL, paused_note = '', open_until = NULL, opened = 0, changed_at = statement_timestamp()
WHERE name = %(name)s AND (paused_at IS NOT NULL OR open_until IS NOT NULL)
RETURNING pg_notify('duebox', '')
