-- For each writer with entries that are not sealed yet, or with a number below that of its sealed entries: the number up
-- to which they are sealed, its number, and how many entries are there in between.
SELECT writer.id, coalesce(sealed.number, 0), writer.number, (
           SELECT count(*) FROM (
               SELECT entry.writer_number FROM duebox_audit AS entry
               WHERE entry.writer = writer.id
                 AND entry.writer_number > coalesce(sealed.number, 0) AND entry.writer_number <= writer.number
               UNION
               SELECT batch.writer_number + place FROM duebox_audit_batch AS batch
               CROSS JOIN generate_series(0, cardinality(batch.ids) - 1) AS place
               WHERE batch.writer = writer.id
                 AND batch.writer_number > coalesce(sealed.number, 0)
                 AND batch.writer_number + cardinality(batch.ids) - 1 <= writer.number
           ) AS numbered
       )
FROM duebox_audit_writer AS writer
LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
WHERE writer.number <> coalesce(sealed.number, 0)
ORDER BY writer.id
