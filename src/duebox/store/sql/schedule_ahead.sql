-- Schedules that become due soon, to be prepared in advance; nothing is locked, firing checks the revision. After a
-- given row if there is one, otherwise from now on, including those that became due within the last moments.
SELECT id, key, plan, due_at, occurrence, local_time, marks, fired, remaining, revision, zone, zone_rules, tz_release, intent::text,
       type, version, aggregate_type, aggregate_id, organization, correlation_id, actor::text, data::text, metadata::text
FROM duebox_schedule
WHERE status = 'scheduled'
  AND (due_at, id) > (
      coalesce(
          %(after)s::timestamptz,
          coalesce(%(now)s::timestamptz, statement_timestamp()) - %(before)s * interval '1 second'
      ),
      coalesce(%(after_id)s::bigint, 9223372036854775807)
  )
  AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) + %(seconds)s * interval '1 second'
ORDER BY due_at, id
LIMIT %(limit)s
