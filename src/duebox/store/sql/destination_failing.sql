-- Set since when every attempt has failed. Failures before a gap that is longer than any wait between two attempts do
-- not count.
INSERT INTO duebox_destination_state AS state (name, failing_since, failed_at, error)
VALUES (%(name)s, statement_timestamp(), statement_timestamp(), %(error)s)
ON CONFLICT (name) DO UPDATE
SET failing_since = CASE
        WHEN state.failed_at < statement_timestamp() - %(gap)s * interval '1 second' THEN statement_timestamp()
        ELSE coalesce(state.failing_since, statement_timestamp())
    END,
    failed_at = statement_timestamp(), error = excluded.error, changed_at = statement_timestamp()
RETURNING extract(epoch FROM failing_since)::float8
