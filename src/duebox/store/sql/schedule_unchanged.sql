-- Which of these schedules are stored as they are wanted, are live, and were derived from the rules of their zone as
-- they are now. Nothing is locked: nothing will be written for them.
SELECT s.key
FROM unnest(
    %(key)s::text[], %(plan)s::text[], %(intent)s::text[], %(zone_rules)s::text[], %(type)s::text[],
    %(version)s::smallint[], %(aggregate_type)s::text[], %(aggregate_id)s::text[], %(organization)s::text[],
    %(data)s::text[], %(metadata)s::text[]
) AS given (
    key, plan, intent, zone_rules, type, version, aggregate_type, aggregate_id, organization, data, metadata
)
JOIN duebox_schedule s ON s.key = given.key
WHERE s.status IN ('scheduled', 'paused')
  AND s.opt_out = ''
  AND s.plan = given.plan
  AND s.zone_rules = given.zone_rules
  AND s.type = given.type
  AND s.version = given.version
  AND s.aggregate_type = given.aggregate_type
  AND s.aggregate_id = given.aggregate_id
  AND s.organization = given.organization
  AND s.intent = given.intent::jsonb
  AND s.data = given.data::jsonb
  AND s.metadata = given.metadata::jsonb
