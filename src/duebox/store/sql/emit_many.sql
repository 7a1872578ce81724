-- Store events with their deliveries and wake a sleeping worker, in one round trip.
-- An event whose (type, key) exists already is left out, and so are its public event and its deliveries. A public event
-- that is passed without its internal event belongs to one that was stored before.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::uuid[], %(type)s::text[], %(version)s::smallint[], %(occurred)s::float8[],
        %(aggregate_type)s::text[], %(aggregate_id)s::text[], %(organization)s::text[],
        %(correlation)s::text[], %(causation)s::uuid[], %(actor)s::text[], %(producer)s::text[],
        %(key)s::text[], %(data)s::text[], %(metadata)s::text[]
    ) WITH ORDINALITY AS given (
        id, type, version, occurred, aggregate_type, aggregate_id, organization,
        correlation, causation, actor, producer, key, data, metadata, position
    )
), fact AS (
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, idempotency_key, data, metadata
    )
    SELECT id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
           correlation, causation, actor::jsonb, producer, key, data::jsonb, metadata::jsonb
    FROM given
    WHERE NOT starts_with(type, 'public.')
    ORDER BY type, key, position -- so that two callers with keys in common do not deadlock, and the first one wins
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id
), public_fact AS (
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, data, metadata
    )
    SELECT given.id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
           correlation, causation, actor::jsonb, producer, data::jsonb, metadata::jsonb
    FROM given
    WHERE starts_with(type, 'public.')
      AND (causation IN (SELECT id FROM fact) OR causation NOT IN (SELECT id FROM given))
    ORDER BY position
    RETURNING id
), stored AS (
    SELECT id FROM fact UNION ALL SELECT id FROM public_fact
), routed AS (
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at)
    SELECT route.event_id, route.subscriber, route.stream,
           coalesce(%(now)s::timestamptz, statement_timestamp())
    FROM unnest(%(route_event)s::uuid[], %(route_subscriber)s::text[], %(route_stream)s::text[])
         WITH ORDINALITY AS route (event_id, subscriber, stream, position)
    JOIN stored ON stored.id = route.event_id
    ORDER BY route.position
    RETURNING 1
), woken AS (
    -- NOTIFY in every commit halves the rate of concurrent inserts, so it is sent only while a worker waits for it.
    SELECT pg_notify('duebox', '')
    WHERE EXISTS (SELECT FROM routed)
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT stored.id::text, (SELECT count(*) FROM woken) FROM stored
