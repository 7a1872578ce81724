-- Links after the one that the head names.
SELECT seal.sequence, seal.entry_id FROM duebox_audit_seal AS seal
LEFT JOIN duebox_audit_head AS head ON head.id = 1
WHERE seal.sequence > coalesce(head.sequence, 0) OR seal.sequence <= coalesce(head.pruned_sequence, 0)
ORDER BY seal.sequence
LIMIT %(limit)s
