-- Write the next occurrence, and wake a sleeping worker if it is soon.
-- A row that was changed meanwhile has another revision and is not updated.
WITH advanced AS (
    UPDATE duebox_schedule AS s
    SET status = given.status,
        opt_out = CASE WHEN given.status IN ('scheduled', 'paused') THEN '' ELSE s.opt_out END,
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
        %(id)s::bigint[], %(revision)s::int[], %(status)s::text[], %(due_at)s::timestamptz[], %(occurrence)s::text[],
        %(local_time)s::text[], %(marks)s::text[], %(fired)s::text[], %(remaining)s::int[], %(zone_rules)s::text[],
        %(tz_release)s::text[]
    ) AS given (id, revision, status, due_at, occurrence, local_time, marks, fired, remaining, zone_rules, tz_release)
    WHERE s.id = given.id AND s.revision = given.revision
    RETURNING s.id, s.due_at
), woken AS (
    SELECT pg_notify('duebox', 'schedules')
    WHERE EXISTS (
            SELECT FROM advanced
            WHERE due_at < coalesce(%(now)s::timestamptz, statement_timestamp()) + %(near)s * interval '1 second'
        )
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT advanced.id, (SELECT count(*) FROM woken) FROM advanced
