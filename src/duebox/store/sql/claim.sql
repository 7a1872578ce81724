-- Lease due deliveries of handlers to one worker, oldest first, with their events. The work is done by a function,
-- whose plan the server keeps.
SELECT * FROM duebox_claim(
    %(lease)s, %(subscribers)s::text[], %(limit)s::int, %(due_from)s::float8, %(past)s::text[], %(now)s::timestamptz
)
