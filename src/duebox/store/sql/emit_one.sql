-- Store one event with its deliveries and wake a sleeping worker, in one round trip; false if its key was used before.
-- The work is done by a function, whose plans the server keeps: as a plain statement it was planned again for every
-- event, which took 130 µs, a third of the server's time.
SELECT duebox_insert_event(
    %(id)s, %(type)s, %(version)s::smallint, %(occurred)s, %(aggregate_type)s, %(aggregate_id)s, %(organization)s,
    %(correlation)s, %(causation)s, %(actor)s, %(producer)s, %(key)s, %(data)s, %(metadata)s,
    %(route_subscriber)s, %(route_stream)s, %(now)s
)
