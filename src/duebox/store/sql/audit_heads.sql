-- The next heads, each beside the last entry that its chain really has.
SELECT head.organization, head.sequence, head.hash, head.pruned_sequence, head.pruned_hash, head.seal,
       last.id, last.sequence, last.hash
FROM duebox_audit_head AS head
LEFT JOIN LATERAL (
    SELECT entry.id, entry.sequence, entry.hash FROM duebox_audit AS entry
    WHERE entry.organization = head.organization
    ORDER BY entry.sequence DESC, entry.id DESC
    LIMIT 1
) AS last ON true
WHERE (%(only)s::text IS NULL OR head.organization = %(only)s)
  AND (%(after)s::text IS NULL OR head.organization > %(after)s)
ORDER BY head.organization
LIMIT %(limit)s
