-- Fire: advance the schedules, insert their events and deliveries, wake a sleeping worker; one statement for all.
-- A schedule that was changed since it was read has another revision: it is left alone, and so is its event.
-- Deliveries that the firing worker can run itself are born under its lease and need no claim.
WITH holder AS MATERIALIZED (
    SELECT id FROM duebox_worker WHERE id = %(lease)s AND expires_at > statement_timestamp() FOR KEY SHARE
), free AS MATERIALIZED (
    -- Never wait for somebody who changes a schedule: he may be waiting for another of these.
    SELECT id FROM duebox_schedule WHERE id = ANY(%(step_id)s::bigint[]) FOR UPDATE SKIP LOCKED
), advanced AS (
    UPDATE duebox_schedule AS s
    SET status = given.status,
        due_at = given.due_at,
        occurrence = given.occurrence,
        local_time = given.local_time,
        marks = given.marks,
        fired = coalesce(given.fired, s.fired),
        fired_at = CASE WHEN given.fired IS NULL THEN s.fired_at
                        ELSE coalesce(%(now)s::timestamptz, statement_timestamp()) END,
        remaining = given.remaining,
        zone_rules = given.zone_rules,
        tz_release = given.tz_release,
        revision = s.revision + 1,
        updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    FROM unnest(
        %(step_id)s::bigint[], %(step_revision)s::int[], %(step_status)s::text[], %(step_due_at)s::timestamptz[],
        %(step_occurrence)s::text[], %(step_local_time)s::text[], %(step_marks)s::text[], %(step_fired)s::text[],
        %(step_remaining)s::int[], %(step_zone_rules)s::text[], %(step_tz_release)s::text[]
    ) AS given (id, revision, status, due_at, occurrence, local_time, marks, fired, remaining, zone_rules, tz_release)
    WHERE s.id = given.id AND s.revision = given.revision AND s.status = 'scheduled'
      AND s.id IN (SELECT id FROM free)
    RETURNING s.id
), given AS MATERIALIZED (
    SELECT given.* FROM unnest(
        %(source)s::bigint[],
        %(id)s::uuid[], %(type)s::text[], %(version)s::smallint[], %(occurred)s::float8[],
        %(aggregate_type)s::text[], %(aggregate_id)s::text[], %(organization)s::text[],
        %(correlation)s::text[], %(causation)s::uuid[], %(actor)s::text[], %(producer)s::text[],
        %(key)s::text[], %(data)s::text[], %(metadata)s::text[]
    ) AS given (
        source, id, type, version, occurred, aggregate_type, aggregate_id, organization,
        correlation, causation, actor, producer, key, data, metadata
    )
    JOIN advanced ON advanced.id = given.source
), fact AS (
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, idempotency_key, data, metadata
    )
    SELECT id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
           correlation, causation, actor, producer, key, data::jsonb, metadata::jsonb
    FROM given
    WHERE NOT starts_with(type, 'public.')
    ORDER BY type, key
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id
), twin AS (
    -- What others may see of an event goes with it, or not at all.
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, data, metadata
    )
    SELECT given.id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
           correlation, causation, actor, producer, data::jsonb, metadata::jsonb
    FROM given JOIN fact ON fact.id = given.causation
    WHERE starts_with(type, 'public.')
    RETURNING id
), stored AS (
    SELECT id FROM fact UNION ALL SELECT id FROM twin
), routed AS (
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at, lease)
    SELECT route.event_id, route.subscriber, route.stream, coalesce(%(now)s::timestamptz, statement_timestamp()),
           CASE WHEN route.mine THEN (SELECT id FROM holder) END
    FROM unnest(
             %(route_event)s::uuid[], %(route_subscriber)s::text[], %(route_stream)s::text[], %(route_mine)s::bool[]
         ) WITH ORDINALITY AS route (event_id, subscriber, stream, mine, position)
    JOIN stored ON stored.id = route.event_id
    ORDER BY route.position
    RETURNING id, event_id, subscriber, due_at, lease
), woken AS (
    SELECT pg_notify('duebox', '')
    WHERE EXISTS (SELECT FROM routed WHERE lease IS NULL)
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT stored.id::text, routed.id, routed.subscriber, date_part('epoch', routed.due_at), routed.lease,
       (SELECT count(*) FROM woken)
FROM stored LEFT JOIN routed ON routed.event_id = stored.id
