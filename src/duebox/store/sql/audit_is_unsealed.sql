-- Whether a writer has entries that are not sealed yet.
SELECT EXISTS (
    SELECT FROM duebox_audit_writer AS writer
    LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
    WHERE writer.number > coalesce(sealed.number, 0)
)
