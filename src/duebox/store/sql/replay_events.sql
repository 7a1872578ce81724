-- Events of a period, oldest first, and for each whether it is still open for a subscriber and whether it is in the
-- history of that subscriber. Ids are ordered by time, so the primary key finds them. Without those whose payload was
-- removed. The page is read first, and its deliveries and history afterwards by = ANY(ARRAY(...)): with a join the
-- planner read the whole history for every page. The data is read only if a route uses it.
WITH page AS MATERIALIZED (
    SELECT id, type, version, date_part('epoch', occurred_at) AS occurred, aggregate_type, aggregate_id, organization,
           correlation_id, causation_id, actor, producer, idempotency_key,
           CASE WHEN %(picky)s THEN data::text ELSE '{}' END AS data,
           CASE WHEN %(picky)s THEN metadata::text ELSE '{}' END AS metadata
    FROM duebox_event
    WHERE id > %(after)s::uuid AND (%(before)s::uuid IS NULL OR id < %(before)s::uuid)
      AND (%(type)s::text IS NULL OR type LIKE %(type)s)
      AND (%(organization)s::text IS NULL OR organization = %(organization)s)
      AND NOT metadata ? 'duebox.payload_removed_at'
    ORDER BY id
    LIMIT %(limit)s
), there AS MATERIALIZED (
    SELECT DISTINCT event_id FROM duebox_delivery
    WHERE event_id = ANY(ARRAY(SELECT id FROM page)) AND subscriber = ANY(%(open)s::text[])
), known AS MATERIALIZED (
    SELECT DISTINCT event_id FROM duebox_attempt
    WHERE event_id = ANY(ARRAY(SELECT id FROM page)) AND subscriber = ANY(%(names)s::text[])
)
SELECT page.id::text, type, version, occurred, aggregate_type, aggregate_id, organization, correlation_id,
       causation_id::text, actor::text, producer, idempotency_key, data, metadata,
       there.event_id IS NOT NULL, known.event_id IS NOT NULL
FROM page LEFT JOIN there ON there.event_id = page.id LEFT JOIN known ON known.event_id = page.id
ORDER BY page.id
