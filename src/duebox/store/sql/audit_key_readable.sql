-- Whether this session may read the key of the triggers. In a separate statement, because without the right a statement
-- that names the table fails.
SELECT has_table_privilege(to_regclass('duebox_audit_key')::oid, 'SELECT')
