-- One head, held until commit.
SELECT organization, coalesce(sequence, 0), coalesce(hash, ''), coalesce(pruned_sequence, 0),
       coalesce(pruned_hash, ''), coalesce(seal, '')
FROM duebox_audit_head
WHERE organization = %(organization)s
FOR UPDATE
