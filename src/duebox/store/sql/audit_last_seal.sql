-- The last link of the chain.
SELECT sequence, hash FROM duebox_audit_seal ORDER BY sequence DESC LIMIT 1
