-- Store the hashes of entries whose values were erased.
INSERT INTO duebox_audit_erasure (entry_id, hash, erased_at)
SELECT given.id, decode(given.hash, 'hex'), coalesce(%(now)s::timestamptz, statement_timestamp())
FROM unnest(%(id)s::bigint[], %(hash)s::text[]) AS given (id, hash)
