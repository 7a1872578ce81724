-- Remove locked events, their history and the results of tasks; of those in `bare` only the history and the results. An
-- event that got a delivery before it was locked is not changed. Returns how many events were removed, and the ids of
-- all that had no delivery.
WITH settled AS MATERIALIZED (
    SELECT given.id FROM unnest(%(id)s::uuid[]) AS given (id)
    WHERE NOT EXISTS (SELECT FROM duebox_delivery d WHERE d.event_id = given.id)
), history AS (
    DELETE FROM duebox_attempt WHERE event_id = ANY(ARRAY(SELECT id FROM settled))
), results AS (
    DELETE FROM duebox_task WHERE event_id = ANY(ARRAY(SELECT id FROM settled))
), gone AS (
    DELETE FROM duebox_event
    WHERE id = ANY(ARRAY(SELECT id FROM settled WHERE id <> ALL(%(bare)s::uuid[])))
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT coalesce(array_agg(id::text), '{}') FROM settled)
