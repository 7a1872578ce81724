-- The next links of the chain, each with the text of its entry that was hashed; NULL if the entry was removed; and the
-- hash of the rest of it if its values were erased. With an organization, the texts of the others are not read. There
-- are fewer links if the entries are large. The text is built here, as in audit_unsealed.sql, and not by a function: an
-- attacker who edits an entry could replace the function as well.
WITH link AS MATERIALIZED (
    SELECT seal.*, sum(pg_column_size(entry.changes) + pg_column_size(entry.metadata))
               OVER (ORDER BY seal.sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (
        SELECT sequence, entry_id, coalesce(entry_hash, '') AS entry_hash, coalesce(hash, '') AS hash
        FROM duebox_audit_seal
        WHERE sequence > %(after)s AND sequence <= %(until)s
        ORDER BY sequence
        LIMIT %(limit)s
    ) AS seal
    LEFT JOIN duebox_audit AS entry ON entry.id = seal.entry_id
)
SELECT link.sequence, link.entry_id, link.entry_hash, link.hash, entry.id IS NOT NULL,
       CASE WHEN entry.id IS NOT NULL AND (%(only)s::text IS NULL OR entry.organization IS NOT DISTINCT FROM %(only)s)
            THEN convert_to(jsonb_build_array(
           entry.id, entry.organization, trim_scale(extract(epoch FROM entry.recorded_at) * 1000000)::text,
           entry.action, entry.entity_type, entry.entity_id, entry.actor, entry.impersonator, entry.correlation_id,
           entry.ip, entry.user_agent, entry.changes, entry.metadata, entry.writer, entry.writer_number
       )::text, 'UTF8') END,
       erasure.hash
FROM link
LEFT JOIN duebox_audit AS entry ON entry.id = link.entry_id
LEFT JOIN duebox_audit_erasure AS erasure ON erasure.entry_id = link.entry_id
WHERE coalesce(link.bytes_before, 0) < %(bytes)s
ORDER BY link.sequence
