-- The next entries in the order of their chains, each as the text that was hashed, beside where its chain begins.
-- The separator is a control character: no column of a true entry holds one, so no two entries give the same text.
-- Another control character stands for NULL, which in a true entry only actor and impersonator can be: concat_ws would
-- leave it out, and two columns pushed into one would read as they did before.
SELECT entry.organization, entry.sequence, entry.id, coalesce(entry.previous_hash, ''), coalesce(entry.hash, ''),
       convert_to(
           concat_ws(
               E'\x1f', entry.id, entry.organization, entry.sequence,
               coalesce(trim_scale(extract(epoch FROM entry.recorded_at) * 1000000)::text, E'\x1e'),
               coalesce(entry.action, E'\x1e'), coalesce(entry.entity_type, E'\x1e'),
               coalesce(entry.entity_id, E'\x1e'), coalesce(entry.actor::text, E'\x1e'),
               coalesce(entry.impersonator::text, E'\x1e'), coalesce(entry.correlation_id, E'\x1e'),
               coalesce(entry.ip, E'\x1e'), coalesce(entry.user_agent, E'\x1e'),
               coalesce(entry.changes::text, E'\x1e'), coalesce(entry.metadata::text, E'\x1e')
           ), 'UTF8'
       ),
       head.pruned_sequence, head.pruned_hash
FROM duebox_audit AS entry
LEFT JOIN duebox_audit_head AS head ON head.organization = entry.organization
WHERE (entry.organization, entry.sequence, entry.id) > (%(organization)s, %(sequence)s, %(id)s)
  AND (entry.organization = %(organization)s OR NOT %(only)s) AND entry.sequence IS NOT NULL
ORDER BY entry.organization, entry.sequence, entry.id
LIMIT %(limit)s
