-- Let a chain begin later, and remove what lies before. The trigger of migration 0004 lets go only what the head says.
WITH head AS (
    UPDATE duebox_audit_head
    SET pruned_sequence = %(pruned_sequence)s, pruned_hash = decode(%(pruned_hash)s, 'hex'),
        seal = decode(%(seal)s, 'hex')
    WHERE organization = %(organization)s
    RETURNING organization, pruned_sequence
)
DELETE FROM duebox_audit AS entry USING head
WHERE entry.organization = head.organization AND entry.sequence <= head.pruned_sequence
RETURNING entry.id
