-- The last link before the first entry that is younger than so many years.
SELECT coalesce(
    (
        SELECT min(seal.sequence) - 1 FROM duebox_audit AS entry
        JOIN duebox_audit_seal AS seal ON seal.entry_id = entry.id
        WHERE entry.recorded_at
              >= coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(years => %(years)s)
    ),
    (SELECT max(sequence) FROM duebox_audit_seal), 0
)
