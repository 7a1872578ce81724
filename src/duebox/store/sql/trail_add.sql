-- Lines for the trail.
INSERT INTO duebox_trail (
    at, what, source, occurrence, aggregate_type, aggregate_id, due_before, due_after, run, event_id, note
)
SELECT coalesce(%(now)s::timestamptz, statement_timestamp()), what, source, occurrence, aggregate_type, aggregate_id,
       due_before, due_after, run, event_id, note
FROM unnest(
    %(what)s::text[], %(source)s::text[], %(occurrence)s::text[], %(aggregate_type)s::text[], %(aggregate_id)s::text[],
    %(due_before)s::timestamptz[], %(due_after)s::timestamptz[], %(run)s::text[], %(event_id)s::uuid[], %(note)s::text[]
) AS given (
    what, source, occurrence, aggregate_type, aggregate_id, due_before, due_after, run, event_id, note
)
