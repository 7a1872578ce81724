-- Add links to the chain, and note up to which number the entries of their writers are sealed.
WITH linked AS (
    INSERT INTO duebox_audit_seal (sequence, entry_id, entry_hash, hash)
    SELECT link.sequence, link.entry_id, decode(link.entry_hash, 'hex'), decode(link.hash, 'hex')
    FROM unnest(%(sequence)s::bigint[], %(entry_id)s::bigint[], %(entry_hash)s::text[], %(hash)s::text[])
         AS link (sequence, entry_id, entry_hash, hash)
)
INSERT INTO duebox_audit_writer_sealed AS sealed (writer, number)
SELECT * FROM unnest(%(writer)s::bigint[], %(number)s::bigint[])
ON CONFLICT (writer) DO UPDATE SET number = excluded.number
