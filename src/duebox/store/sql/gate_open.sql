-- Open the circuit breaker of a destination for a while. It is opened once: workers that notice the failures at the
-- same time do not count twice, and a longer wait that the destination requested stays.
INSERT INTO duebox_destination_state AS gate (name, open_until, opened, failing_since, error)
VALUES (
    %(name)s, statement_timestamp() + %(pause)s * interval '1 second', %(counts)s, statement_timestamp(), %(error)s
)
ON CONFLICT (name) DO UPDATE
SET open_until = greatest(
        CASE WHEN NOT %(probed)s THEN gate.open_until END,
        statement_timestamp()
            + least(%(longest)s, %(pause)s * CASE WHEN %(counts)s = 0 THEN 1 ELSE 2 ^ least(gate.opened, 20) END)
            * interval '1 second'
    ),
    opened = gate.opened + %(counts)s,
    failing_since = coalesce(gate.failing_since, statement_timestamp()),
    error = %(error)s,
    changed_at = statement_timestamp()
WHERE %(counts)s = 0 OR gate.open_until IS NULL OR gate.open_until <= statement_timestamp() OR %(probed)s
RETURNING extract(epoch FROM open_until - statement_timestamp())::float8
