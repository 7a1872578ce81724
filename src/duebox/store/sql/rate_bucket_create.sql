-- Destinations with a rate have a bucket, full at first.
INSERT INTO duebox_destination_state (name, tokens, refilled_at)
SELECT given.name, given.bucket, statement_timestamp()
FROM unnest(%(name)s::text[], %(bucket)s::float8[]) AS given (name, bucket)
ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, refilled_at = excluded.refilled_at
WHERE duebox_destination_state.tokens IS NULL
