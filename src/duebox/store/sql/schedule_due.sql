-- Schedules that are due, oldest first, locked for the transaction that fires them.
SELECT id, key, plan, due_at, occurrence, local_time, marks, fired, remaining, revision, zone, zone_rules, tz_release, intent::text,
       type, version, aggregate_type, aggregate_id, organization, correlation_id, actor::text, data::text, metadata::text,
       coalesce(%(now)s::timestamptz, statement_timestamp())
FROM duebox_schedule
WHERE status = 'scheduled'
  AND due_at >= coalesce(%(floor)s::timestamptz, '-infinity')
  AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
ORDER BY due_at, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
