-- The events that were stored first under these keys.
SELECT e.id::text, e.type, e.version, date_part('epoch', e.occurred_at), e.aggregate_type, e.aggregate_id,
       e.organization, e.correlation_id, e.causation_id::text, e.actor::text, e.producer, e.idempotency_key,
       e.data::text, e.metadata::text
FROM unnest(%(type)s::text[], %(key)s::text[]) AS wanted (type, key)
JOIN duebox_event e ON e.type = wanted.type AND e.idempotency_key = wanted.key
