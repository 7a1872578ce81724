-- For each chain its last entry before a moment; nothing if it began later. A chain may have lost its head.
SELECT chain.organization, last.sequence
FROM (
    SELECT organization FROM duebox_audit_head
    UNION
    SELECT organization FROM duebox_audit WHERE recorded_at >= %(since)s
) AS chain
LEFT JOIN LATERAL (
    SELECT entry.sequence FROM duebox_audit AS entry
    WHERE entry.organization = chain.organization AND entry.recorded_at < %(since)s
      AND entry.sequence IS NOT NULL
    ORDER BY entry.recorded_at DESC, entry.sequence DESC
    LIMIT 1
) AS last ON true
WHERE %(only)s::text IS NULL OR chain.organization = %(only)s
ORDER BY chain.organization
