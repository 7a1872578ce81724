-- What comes due soon, to be prepared before its time; nothing is locked, firing checks the revision.
SELECT id, key, plan, due_at, occurrence, local_time, marks, fired, remaining, revision, zone, zone_rules, tz_release, intent::text,
       type, version, aggregate_type, aggregate_id, organization, correlation_id, actor, data::text, metadata::text
FROM duebox_schedule
WHERE status = 'scheduled'
  AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
  AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) + %(seconds)s * interval '1 second'
ORDER BY due_at, id
LIMIT %(limit)s
