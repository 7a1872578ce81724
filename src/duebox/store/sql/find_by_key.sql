-- The events that were stored first with these keys. The repeated emit is added to the history of each.
WITH wanted AS (
    SELECT * FROM unnest(%(type)s::text[], %(key)s::text[]) AS wanted (type, key)
), first AS MATERIALIZED (
    SELECT e.id, e.type, e.version, date_part('epoch', e.occurred_at) AS occurred, e.aggregate_type, e.aggregate_id,
           e.organization, e.correlation_id, e.causation_id, e.actor, e.producer, e.idempotency_key, e.data, e.metadata
    FROM wanted
    JOIN duebox_event e ON e.type = wanted.type AND e.idempotency_key = wanted.key
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT id, 0, '', 0, 'deduplicated', coalesce(%(now)s::timestamptz, statement_timestamp()),
           coalesce(%(now)s::timestamptz, statement_timestamp()), %(note)s
    FROM first
)
SELECT id::text, type, version, occurred, aggregate_type, aggregate_id, organization, correlation_id,
       causation_id::text, actor::text, producer, idempotency_key, data::text, metadata::text
FROM first
