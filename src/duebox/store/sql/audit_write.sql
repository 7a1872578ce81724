-- Store entries and number them, in one round trip and without waiting for other transactions.
SELECT id, recorded_at, organization, action, entity_type, entity_id, actor, impersonator, correlation_id, ip,
       user_agent, changes, metadata, writer, writer_number
FROM duebox_audit_write(
    %(now)s, %(organization)s, %(action)s, %(entity_type)s, %(entity_id)s, %(actor)s, %(impersonator)s,
    %(correlation_id)s, %(ip)s, %(user_agent)s, %(changes)s, %(metadata)s
)
