-- The number of tokens in these buckets now. A bucket is locked until the transaction ends; one that another worker has
-- locked is left out, because that worker takes its tokens.
SELECT gate.name,
       least(
           given.bucket,
           gate.tokens + given.rate * greatest(0, extract(epoch FROM statement_timestamp() - gate.refilled_at))
       )::float8,
       extract(epoch FROM statement_timestamp())::float8
FROM unnest(%(name)s::text[], %(rate)s::float8[], %(bucket)s::float8[]) AS given (name, rate, bucket)
JOIN duebox_destination_state gate ON gate.name = given.name
WHERE gate.tokens IS NOT NULL
ORDER BY gate.name
FOR UPDATE OF gate SKIP LOCKED
