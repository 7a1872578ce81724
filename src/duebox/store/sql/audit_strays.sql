-- Entries that have no link and that no writer has left to be sealed: Duebox did not write them. How many, and the first.
SELECT count(*), min(stray.id) FROM (
    SELECT entry.id FROM duebox_audit AS entry
    WHERE NOT EXISTS (SELECT FROM duebox_audit_seal AS seal WHERE seal.entry_id = entry.id)
      AND NOT EXISTS (
          SELECT FROM duebox_audit_writer AS writer
          LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
          WHERE writer.id = entry.writer
            AND entry.writer_number > coalesce(sealed.number, 0) AND entry.writer_number <= writer.number
      )
    UNION ALL
    SELECT unnest(batch.ids) FROM duebox_audit_batch AS batch
    WHERE NOT EXISTS (
        SELECT FROM duebox_audit_writer AS writer
        LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
        WHERE writer.id = batch.writer AND batch.writer_number > coalesce(sealed.number, 0)
          AND batch.writer_number + cardinality(batch.ids) - 1 <= writer.number
    )
) AS stray
