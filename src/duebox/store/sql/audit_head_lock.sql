-- The head of the chain, locked until the transaction ends; no row if another transaction has it.
SELECT coalesce(sequence, -1), coalesce(hash, ''), coalesce(pruned_sequence, -1), coalesce(pruned_hash, ''), sealed_at,
       coalesce(signature, '')
FROM duebox_audit_head
WHERE id = 1
FOR UPDATE SKIP LOCKED
