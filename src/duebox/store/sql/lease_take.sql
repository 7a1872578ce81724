INSERT INTO duebox_worker (name, expires_at)
VALUES (%(name)s, statement_timestamp() + %(seconds)s * interval '1 second')
RETURNING id
