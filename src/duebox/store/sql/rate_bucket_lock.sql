-- The number of tokens in these buckets now. A bucket is locked until the transaction ends; one that another worker has
-- locked is left out, because that worker takes its tokens.
SELECT state.name,
       least(
           given.bucket,
           state.tokens + given.rate * greatest(0, extract(epoch FROM statement_timestamp() - state.refilled_at))
       )::float8,
       extract(epoch FROM statement_timestamp())::float8
FROM unnest(%(name)s::text[], %(rate)s::float8[], %(bucket)s::float8[]) AS given (name, rate, bucket)
JOIN duebox_destination_state state ON state.name = given.name
WHERE state.tokens IS NOT NULL
ORDER BY state.name
FOR UPDATE OF state SKIP LOCKED
