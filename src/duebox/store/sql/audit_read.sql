-- The next entries in the order of their chains, each as the text that was hashed, beside where its chain begins.
-- The separator is a control character: no column of a true entry holds one, so no two entries give the same text.
SELECT entry.organization, entry.sequence, entry.id, entry.previous_hash, entry.hash,
       convert_to(
           concat_ws(
               E'\x1f', entry.id, entry.organization, entry.sequence,
               (extract(epoch FROM entry.recorded_at) * 1000000)::bigint, entry.action, entry.entity_type,
               entry.entity_id, entry.actor, entry.impersonator, entry.correlation_id, entry.ip, entry.user_agent,
               entry.changes, entry.metadata
           ), 'UTF8'
       ),
       head.pruned_sequence, head.pruned_hash
FROM duebox_audit AS entry
LEFT JOIN duebox_audit_head AS head ON head.organization = entry.organization
WHERE (entry.organization, entry.sequence, entry.id) > (%(organization)s, %(sequence)s, %(id)s)
  AND (entry.organization = %(organization)s OR NOT %(only)s)
ORDER BY entry.organization, entry.sequence, entry.id
LIMIT %(limit)s
