-- Schedules that are due, oldest first, locked for the transaction that fires them; of those of a plan, whether their
-- row was changed and not planned again yet.
SELECT id, key, plan, due_at, occurrence, local_time, marks, fired, remaining, revision, zone, zone_rules, tz_release, intent::text,
       type, version, aggregate_type, aggregate_id, organization, correlation_id, actor::text, data::text, metadata::text,
       plan <> '' AND (
           EXISTS (SELECT FROM duebox_row_change c WHERE c.source = aggregate_type AND c.key IN (aggregate_id, ''))
           OR EXISTS (
               SELECT FROM duebox_row_change c
               WHERE c.source = aggregate_type AND c.keys IS NOT NULL AND aggregate_id = ANY(c.keys)
           )
       ),
       coalesce(%(now)s::timestamptz, statement_timestamp())
FROM duebox_schedule
WHERE status = 'scheduled'
  AND due_at >= coalesce(%(floor)s::timestamptz, '-infinity')
  AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
ORDER BY due_at, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
