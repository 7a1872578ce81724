-- Store schedules with the instants derived from their intents, and wake a sleeping worker if one becomes due before
-- the worker polls again. The last occurrence that fired stays stored, whatever the new intent is.
WITH written AS (
    INSERT INTO duebox_schedule AS s (
        key, plan, status, due_at, occurrence, local_time, marks, remaining, zone, zone_rules, tz_release, intent,
        type, version, aggregate_type, aggregate_id, organization, correlation_id, actor, data, metadata,
        created_at, updated_at
    )
    SELECT key, plan, status, due_at, occurrence, local_time, marks, remaining, zone, zone_rules, tz_release,
           intent::jsonb, type, version, aggregate_type, aggregate_id, organization, correlation_id, actor::jsonb,
           data::jsonb, metadata::jsonb, coalesce(%(now)s::timestamptz, statement_timestamp()),
           coalesce(%(now)s::timestamptz, statement_timestamp())
    FROM unnest(
        %(key)s::text[], %(plan)s::text[], %(status)s::text[], %(due_at)s::timestamptz[], %(occurrence)s::text[],
        %(local_time)s::text[], %(marks)s::text[], %(remaining)s::int[], %(zone)s::text[], %(zone_rules)s::text[],
        %(tz_release)s::text[], %(intent)s::text[], %(type)s::text[], %(version)s::smallint[],
        %(aggregate_type)s::text[], %(aggregate_id)s::text[], %(organization)s::text[], %(correlation_id)s::text[],
        %(actor)s::text[], %(data)s::text[], %(metadata)s::text[]
    ) AS given (
        key, plan, status, due_at, occurrence, local_time, marks, remaining, zone, zone_rules, tz_release, intent,
        type, version, aggregate_type, aggregate_id, organization, correlation_id, actor, data, metadata
    )
    ORDER BY key -- so that two callers with keys in common do not deadlock
    ON CONFLICT (key) DO UPDATE SET
        plan = excluded.plan, status = excluded.status, opt_out = '', due_at = excluded.due_at, occurrence = excluded.occurrence,
        local_time = excluded.local_time, marks = excluded.marks, remaining = excluded.remaining, zone = excluded.zone,
        zone_rules = excluded.zone_rules, tz_release = excluded.tz_release, intent = excluded.intent,
        type = excluded.type, version = excluded.version, aggregate_type = excluded.aggregate_type,
        aggregate_id = excluded.aggregate_id, organization = excluded.organization,
        correlation_id = excluded.correlation_id, actor = excluded.actor, data = excluded.data,
        metadata = excluded.metadata, revision = s.revision + 1, updated_at = excluded.updated_at
    RETURNING due_at
), woken AS (
    SELECT pg_notify('duebox', 'schedules')
    WHERE EXISTS (
            SELECT FROM written
            WHERE due_at < coalesce(%(now)s::timestamptz, statement_timestamp()) + %(near)s * interval '1 second'
        )
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT (SELECT count(*) FROM written), (SELECT count(*) FROM woken)
