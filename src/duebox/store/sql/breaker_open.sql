-- Open the circuit breaker of a destination for a while. It is opened once: workers that notice the failures at the
-- same time do not count twice, and a longer wait that the destination requested stays.
INSERT INTO duebox_destination_state AS state (name, open_until, opened, failing_since, error)
VALUES (
    %(name)s, statement_timestamp() + %(pause)s * interval '1 second', %(counts)s, statement_timestamp(), %(error)s
)
ON CONFLICT (name) DO UPDATE
SET open_until = greatest(
        CASE WHEN NOT %(probed)s THEN state.open_until END,
        statement_timestamp()
            + least(%(longest)s, %(pause)s * CASE WHEN %(counts)s = 0 THEN 1 ELSE 2 ^ least(state.opened, 20) END)
            * interval '1 second'
    ),
    opened = state.opened + %(counts)s,
    failing_since = coalesce(state.failing_since, statement_timestamp()),
    error = %(error)s,
    changed_at = statement_timestamp()
WHERE %(counts)s = 0 OR state.open_until IS NULL OR state.open_until <= statement_timestamp() OR %(probed)s
RETURNING extract(epoch FROM open_until - statement_timestamp())::float8
