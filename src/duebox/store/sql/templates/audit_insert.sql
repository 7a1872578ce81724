INSERT INTO {schema}.duebox_audit (
        recorded_at, organization, action, entity_type, entity_id, actor, impersonator, correlation_id, ip, user_agent,
        changes, metadata, writer, writer_number
    )
    SELECT moment, coalesce(nullif(left(entry.organization, 500), ''), context_organization), entry.action,
           entry.type, coalesce(nullif(left(entry.id, 500), ''), '*'), context_actor, context_impersonator,
           context_correlation_id, context_ip, context_user_agent, {changes}, recorded.metadata,
           session_writer, {number}
