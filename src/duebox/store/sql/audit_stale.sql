-- The last entry of each chain that is older than so many years.
SELECT head.organization, head.pruned_sequence, last.sequence
FROM duebox_audit_head AS head
CROSS JOIN LATERAL (
    SELECT entry.sequence FROM duebox_audit AS entry
    WHERE entry.organization = head.organization AND entry.sequence IS NOT NULL
      AND entry.recorded_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - make_interval(years => %(years)s)
    ORDER BY entry.recorded_at DESC, entry.sequence DESC
    LIMIT 1
) AS last
ORDER BY head.organization
