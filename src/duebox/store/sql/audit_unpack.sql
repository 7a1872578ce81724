-- Store the entries of some batches in rows of their own: of each writer the first ones that are not sealed yet. A batch
-- with numbers that its writer has not given, or that are sealed, was not written by Duebox and stays as it is.
WITH chosen AS MATERIALIZED (
    SELECT batch.id FROM duebox_audit_batch AS batch
    JOIN duebox_audit_writer AS writer ON writer.id = batch.writer
    LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = batch.writer
    WHERE batch.writer_number > coalesce(sealed.number, 0)
      AND batch.writer_number + cardinality(batch.ids) - 1 <= writer.number
    ORDER BY batch.writer, batch.writer_number
    LIMIT %(limit)s
), gone AS (
    DELETE FROM duebox_audit_batch WHERE id IN (SELECT id FROM chosen)
    RETURNING *
)
INSERT INTO duebox_audit (
    id, organization, recorded_at, action, entity_type, entity_id, actor, impersonator, correlation_id, ip, user_agent,
    changes, metadata, writer, writer_number
)
SELECT one.id, one.organization, gone.recorded_at, one.action, one.entity_type, one.entity_id, gone.actor,
       gone.impersonator, gone.correlation_id, gone.ip, gone.user_agent, one.changes, gone.metadata, gone.writer,
       gone.writer_number + one.position - 1
FROM gone
CROSS JOIN LATERAL unnest(
    gone.ids, gone.organizations, gone.actions, gone.entity_types, gone.entity_ids, gone.changes
) WITH ORDINALITY AS one (id, organization, action, entity_type, entity_id, changes, position)
ON CONFLICT DO NOTHING
