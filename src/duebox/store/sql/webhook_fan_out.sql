-- Create a delivery of public events for each endpoint that subscribes to them, in one round trip. Returns how many,
-- and how many disabled endpoints missed them. The work is done by a function, whose plan the server keeps.
SELECT routed, missed FROM duebox_fan_out(%(events)s::uuid[], %(prefix)s, %(now)s::timestamptz)
