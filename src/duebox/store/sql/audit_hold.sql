-- One head, held until commit.
SELECT organization, sequence, hash, pruned_sequence, pruned_hash, seal FROM duebox_audit_head
WHERE organization = %(organization)s
FOR UPDATE
