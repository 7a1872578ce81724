-- All entries: those in rows of their own, and those of statements that changed many rows, which share a row until a
-- worker has sealed them. With the rights of whoever reads it.
--
-- A migration that changes a column of the tables drops this view first and creates it again.
CREATE OR REPLACE VIEW duebox_audit_entry WITH (security_invoker = true) AS
SELECT id, organization, recorded_at, action, entity_type, entity_id, actor, impersonator, correlation_id, ip,
       user_agent, changes, metadata, writer, writer_number
FROM duebox_audit
UNION ALL
SELECT one.id, one.organization, batch.recorded_at, one.action, one.entity_type, one.entity_id COLLATE "C", batch.actor,
       batch.impersonator, batch.correlation_id, batch.ip, batch.user_agent, one.changes, batch.metadata, batch.writer,
       batch.writer_number + one.position - 1
FROM duebox_audit_batch AS batch
CROSS JOIN LATERAL unnest(
    batch.ids, batch.organizations, batch.actions, batch.entity_types, batch.entity_ids, batch.changes
) WITH ORDINALITY AS one (id, organization, action, entity_type, entity_id, changes, position);
