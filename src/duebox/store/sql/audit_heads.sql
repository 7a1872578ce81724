-- The next heads, each beside the last entry that its chain really has.
-- No column is ever NULL, unless somebody makes it so: what is read instead does not fit the seal.
SELECT head.organization, coalesce(head.sequence, -1), coalesce(head.hash, ''), coalesce(head.pruned_sequence, -1),
       coalesce(head.pruned_hash, ''), coalesce(head.seal, ''),
       last.id, last.sequence, coalesce(last.hash, '')
FROM duebox_audit_head AS head
LEFT JOIN LATERAL (
    SELECT entry.id, entry.sequence, entry.hash FROM duebox_audit AS entry
    WHERE entry.organization = head.organization AND entry.sequence IS NOT NULL
    ORDER BY entry.sequence DESC, entry.id DESC
    LIMIT 1
) AS last ON true
WHERE (%(only)s::text IS NULL OR head.organization = %(only)s)
  AND (%(after)s::text IS NULL OR head.organization > %(after)s)
ORDER BY head.organization
LIMIT %(limit)s
