-- Fire: advance the schedules, insert their events and deliveries, wake a sleeping worker; returns every event that was
-- stored, with each of its deliveries, and without an event the ids of schedules that did not fire. The work is done by
-- a function, whose plans the server keeps.
SELECT * FROM duebox_fire(
    %(lease)s, %(now)s::timestamptz,
    %(step_id)s::bigint[], %(step_revision)s::int[], %(step_status)s::text[], %(step_due_at)s::timestamptz[],
    %(step_occurrence)s::text[], %(step_local_time)s::text[], %(step_marks)s::text[], %(step_fired)s::text[],
    %(step_remaining)s::int[], %(step_zone_rules)s::text[], %(step_tz_release)s::text[],
    %(source)s::bigint[], %(id)s::uuid[], %(type)s::text[], %(version)s::smallint[], %(occurred)s::float8[],
    %(aggregate_type)s::text[], %(aggregate_id)s::text[], %(organization)s::text[], %(correlation)s::text[],
    %(causation)s::uuid[], %(actor)s::text[], %(producer)s::text[], %(key)s::text[], %(data)s::text[],
    %(metadata)s::text[],
    %(route_event)s::uuid[], %(route_subscriber)s::text[], %(route_stream)s::text[], %(route_mine)s::boolean[],
    %(look)s::boolean, %(follow_plan)s::text[], %(follow_source)s::text[],
    %(refreshed)s::bigint[]
)
