-- The schedules that a plan has for some rows, beside those that it should have: all that differ, with the id of the
-- stored one and the key of the new one. Equal schedules are live, and derived from the current rules of their zone.
-- Nothing is locked: nothing will be written for equal ones.
SELECT s.id, given.key
FROM unnest(
    %(key)s::text[], %(intent)s::text[], %(zone_rules)s::text[], %(type)s::text[], %(version)s::smallint[],
    %(aggregate_id)s::text[], %(organization)s::text[], %(actor)s::text[], %(data)s::text[], %(metadata)s::text[]
) AS given (key, intent, zone_rules, type, version, aggregate_id, organization, actor, data, metadata)
FULL JOIN (
    SELECT *
    FROM duebox_schedule
    WHERE aggregate_type = %(of_type)s AND aggregate_id = ANY(%(of_ids)s::text[]) AND plan = %(plan)s
) AS s ON s.key = given.key
WHERE (
    s.status IN ('scheduled', 'paused')
    AND s.opt_out = ''
    AND s.zone_rules = given.zone_rules
    AND s.type = given.type
    AND s.version = given.version
    AND s.aggregate_id = given.aggregate_id
    AND s.organization = given.organization
    AND s.intent = given.intent::jsonb
    AND s.data = given.data::jsonb
    AND s.metadata = given.metadata::jsonb
    AND (given.actor IS NULL OR s.actor = given.actor::jsonb)
) IS NOT TRUE
