-- Add entries to their chains and move the heads, which `audit_open` has locked.
WITH added AS (
    INSERT INTO duebox_audit (
        id, organization, sequence, recorded_at, action, entity_type, entity_id, actor, impersonator,
        correlation_id, ip, user_agent, changes, metadata, previous_hash, hash
    )
    SELECT id, organization, sequence, recorded_at, action, entity_type, entity_id, actor::jsonb, impersonator::jsonb,
           correlation_id, ip, user_agent, changes::jsonb, metadata::jsonb,
           decode(previous_hash, 'hex'), decode(hash, 'hex')
    FROM unnest(
        %(id)s::bigint[], %(organization)s::text[], %(sequence)s::bigint[], %(recorded_at)s::timestamptz[],
        %(action)s::text[], %(entity_type)s::text[], %(entity_id)s::text[], %(actor)s::text[],
        %(impersonator)s::text[], %(correlation_id)s::text[], %(ip)s::text[], %(user_agent)s::text[],
        %(changes)s::text[], %(metadata)s::text[], %(previous_hash)s::text[], %(hash)s::text[]
    ) AS given (
        id, organization, sequence, recorded_at, action, entity_type, entity_id, actor, impersonator,
        correlation_id, ip, user_agent, changes, metadata, previous_hash, hash
    )
)
UPDATE duebox_audit_head AS head
SET sequence = moved.sequence, hash = decode(moved.hash, 'hex'), seal = decode(moved.seal, 'hex')
FROM unnest(
    %(head_organization)s::text[], %(head_sequence)s::bigint[], %(head_hash)s::text[], %(head_seal)s::text[]
) AS moved (organization, sequence, hash, seal)
WHERE head.organization = moved.organization
