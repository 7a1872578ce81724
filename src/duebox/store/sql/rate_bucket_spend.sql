-- Write the remaining tokens of the buckets that this transaction has locked.
UPDATE duebox_destination_state SET tokens = given.tokens, refilled_at = to_timestamp(%(moment)s)
FROM unnest(%(name)s::text[], %(tokens)s::float8[]) AS given (name, tokens)
WHERE duebox_destination_state.name = given.name
