-- The first link whose entry was recorded at a moment or later; without one, the place behind the last link.
SELECT coalesce(
    (
        SELECT min(seal.sequence) FROM duebox_audit AS entry
        JOIN duebox_audit_seal AS seal ON seal.entry_id = entry.id
        WHERE entry.recorded_at >= %(since)s
    ),
    (SELECT max(sequence) + 1 FROM duebox_audit_seal), 1
)
