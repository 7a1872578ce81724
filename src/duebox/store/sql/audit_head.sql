-- The head of the chain.
SELECT coalesce(sequence, -1), coalesce(hash, ''), coalesce(pruned_sequence, -1), coalesce(pruned_hash, ''), sealed_at,
       coalesce(signature, '')
FROM duebox_audit_head WHERE id = 1
