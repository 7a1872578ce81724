-- Public events → a delivery for each endpoint that wants one of them, in one round trip: how many, and how many that
-- are disabled would have wanted them. The work is done by a function of migration 0006, whose plan the server keeps.
SELECT routed, missed FROM duebox_fan_out(%(events)s::uuid[], %(prefix)s, %(now)s::timestamptz)
