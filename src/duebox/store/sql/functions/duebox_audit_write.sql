-- Store entries of this session, passed by columns, and return them as stored. The server keeps the plan: as a plain
-- statement it was planned again for every entry.
CREATE OR REPLACE FUNCTION duebox_audit_write(
    moment timestamptz, organizations text[], actions text[], entity_types text[], entity_ids text[], actors text[],
    impersonators text[], correlation_ids text[], ips text[], user_agents text[], all_changes text[], all_metadata text[]
) RETURNS SETOF duebox_audit LANGUAGE plpgsql AS $$
DECLARE
    given bigint := cardinality(actions);
    numbered record;
BEGIN
    SELECT writer, last INTO numbered FROM duebox_audit_number(given);
    RETURN QUERY
    INSERT INTO duebox_audit AS stored (
        recorded_at, organization, action, entity_type, entity_id, actor, impersonator, correlation_id, ip, user_agent,
        changes, metadata, writer, writer_number
    )
    SELECT coalesce(moment, clock_timestamp()), entry.organization, entry.action, entry.entity_type, entry.entity_id,
           entry.actor::jsonb, entry.impersonator::jsonb, entry.correlation_id, entry.ip, entry.user_agent,
           entry.changes::jsonb, entry.metadata::jsonb, numbered.writer, numbered.last - given + entry.position
    FROM unnest(
        organizations, actions, entity_types, entity_ids, actors, impersonators, correlation_ids, ips, user_agents,
        all_changes, all_metadata
    ) WITH ORDINALITY AS entry (
        organization, action, entity_type, entity_id, actor, impersonator, correlation_id, ip, user_agent,
        changes, metadata, position
    )
    ORDER BY entry.position
    RETURNING stored.*;
END $$;
