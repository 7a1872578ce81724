-- Where the chain ends and begins now. The row is locked, or was removed.
INSERT INTO duebox_audit_head AS head (id, sequence, hash, pruned_sequence, pruned_hash, sealed_at, signature)
VALUES (
    1, %(sequence)s, decode(%(hash)s, 'hex'), %(pruned_sequence)s, decode(%(pruned_hash)s, 'hex'), %(sealed_at)s,
    decode(%(signature)s, 'hex')
)
ON CONFLICT (id) DO UPDATE SET
    sequence = excluded.sequence, hash = excluded.hash, pruned_sequence = excluded.pruned_sequence,
    pruned_hash = excluded.pruned_hash, sealed_at = excluded.sealed_at, signature = excluded.signature
