-- The number is random and not the next one: after a fail-over to a server that lags behind, a sequence would give the
-- number of a lease out again that another worker still believes to hold.
INSERT INTO duebox_worker (id, name, expires_at)
VALUES (('x' || left(md5(gen_random_uuid()::text), 15))::bit(60)::bigint, %(name)s, statement_timestamp() + %(seconds)s * interval '1 second')
RETURNING id
