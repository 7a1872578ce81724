-- The id is random and not from a sequence: after a failover to a lagging server, a sequence could return the id of a
-- lease that another worker still uses.
INSERT INTO duebox_worker (id, name, expires_at)
VALUES (('x' || left(md5(gen_random_uuid()::text), 15))::bit(60)::bigint, %(name)s, statement_timestamp() + %(seconds)s * interval '1 second')
RETURNING id
