-- Remove the links of entries that were pruned, and the hashes of those that were erased before.
WITH gone AS (
    DELETE FROM duebox_audit_seal WHERE sequence <= %(sequence)s
    RETURNING sequence, entry_id
), erased AS (
    DELETE FROM duebox_audit_erasure WHERE entry_id IN (SELECT entry_id FROM gone)
)
SELECT sequence FROM gone
