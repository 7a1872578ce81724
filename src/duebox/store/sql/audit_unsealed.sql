-- The entries that are to be sealed next, in the order of their ids, the text of each that is hashed, and whether there are
-- more of them. The counters of the writers are seen as of the same moment, and were moved in the transactions of their
-- entries: a number below the counter without an entry is an entry that was removed. A writer without any entry gives one
-- row with NULLs. Where entries are large there are fewer of them. Those in a batch, and what the same writer has written
-- after it, wait until the batch is unpacked. The entries of one writer come in the order of their numbers.
WITH pending AS MATERIALIZED (
    SELECT * FROM (
        SELECT writer.id AS writer, coalesce(sealed.number, 0) AS sealed,
               least(writer.number, (
                   SELECT min(batch.writer_number) - 1 FROM duebox_audit_batch AS batch
                   WHERE batch.writer = writer.id AND batch.writer_number > coalesce(sealed.number, 0)
                     AND batch.writer_number + cardinality(batch.ids) - 1 <= writer.number
               )) AS number
        FROM duebox_audit_writer AS writer
        LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
        WHERE writer.number > coalesce(sealed.number, 0)
    ) AS writer
    WHERE writer.number > writer.sealed
), next AS MATERIALIZED (
    SELECT limited.*, sum(limited.bytes) OVER (
               ORDER BY limited.place, limited.writer_number, limited.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS bytes_before
    FROM (
        SELECT pending.*, entry.id, entry.writer_number, entry.bytes,
               max(entry.id) OVER (PARTITION BY pending.writer ORDER BY entry.writer_number, entry.id) AS place
        FROM pending
        LEFT JOIN LATERAL (
            SELECT one.id, one.writer_number, pg_column_size(one.changes) + pg_column_size(one.metadata) AS bytes
            FROM duebox_audit AS one
            WHERE one.writer = pending.writer
              AND one.writer_number > pending.sealed AND one.writer_number <= pending.number
            ORDER BY one.writer_number, one.id
            LIMIT %(limit)s
        ) AS entry ON true
        ORDER BY place, entry.writer_number, entry.id
        LIMIT %(limit)s
    ) AS limited
)
SELECT next.writer, next.sealed, next.number, next.writer_number, next.id,
       CASE WHEN entry.id IS NOT NULL THEN convert_to(jsonb_build_array(
           entry.id, entry.organization, trim_scale(extract(epoch FROM entry.recorded_at) * 1000000)::text,
           entry.action, entry.entity_type, entry.entity_id, entry.actor, entry.impersonator, entry.correlation_id,
           entry.ip, entry.user_agent, entry.changes, entry.metadata, entry.writer, entry.writer_number
       )::text, 'UTF8') END,
       (SELECT count(*) >= %(limit)s OR max(bytes_before) >= %(bytes)s FROM next) IS TRUE
FROM next LEFT JOIN duebox_audit AS entry ON entry.id = next.id
WHERE coalesce(next.bytes_before, 0) < %(bytes)s
ORDER BY next.place, next.writer_number, next.id
