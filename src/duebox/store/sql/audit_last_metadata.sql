-- The metadata of the last entry about the log itself with an action.
SELECT metadata::text FROM duebox_audit
WHERE entity_type = 'audit' AND entity_id = 'entries' AND action = %(action)s
ORDER BY id DESC
LIMIT 1
