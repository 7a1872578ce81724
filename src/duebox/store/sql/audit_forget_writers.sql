-- Writers whose sessions have ended and whose entries are all sealed.
WITH gone AS (
    DELETE FROM duebox_audit_writer WHERE id IN (
        SELECT writer.id FROM duebox_audit_writer AS writer
        JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id AND sealed.number = writer.number
        WHERE NOT EXISTS (SELECT FROM pg_stat_activity AS session WHERE session.pid = writer.process_id)
        LIMIT %(limit)s
        FOR UPDATE OF writer SKIP LOCKED
    )
    RETURNING id
)
DELETE FROM duebox_audit_writer_sealed WHERE writer IN (SELECT id FROM gone)
RETURNING writer
