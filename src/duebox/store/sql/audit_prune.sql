-- Remove entries up to the beginning of the chain in the head. Their links are removed afterwards, because the trigger
-- reads them.
DELETE FROM duebox_audit
WHERE id IN (SELECT entry_id FROM duebox_audit_seal WHERE sequence <= %(sequence)s)
