-- Add lines to the schedule log.
INSERT INTO duebox_schedule_log (
    at, what, source, occurrence, aggregate_type, aggregate_id, due_before, due_after, run, event_id, note,
    occurrences, last_occurrence
)
SELECT coalesce(%(now)s::timestamptz, statement_timestamp()), what, source, occurrence, aggregate_type, aggregate_id,
       due_before, due_after, run, event_id, note, occurrences, last_occurrence
FROM unnest(
    %(what)s::text[], %(source)s::text[], %(occurrence)s::text[], %(aggregate_type)s::text[], %(aggregate_id)s::text[],
    %(due_before)s::timestamptz[], %(due_after)s::timestamptz[], %(run)s::text[], %(event_id)s::uuid[], %(note)s::text[],
    %(occurrences)s::int[], %(last_occurrence)s::text[]
) AS given (
    what, source, occurrence, aggregate_type, aggregate_id, due_before, due_after, run, event_id, note,
    occurrences, last_occurrence
)
