-- The role of this session, the schema of Duebox's own tables, and whether the role may give a table its triggers: it
-- needs the right to it on the table, and to make their function, or to replace the one that is there.
SELECT quote_ident(current_user), quote_ident(own.nspname),
       has_table_privilege(to_regclass(%(table)s)::oid, 'TRIGGER'),
       has_schema_privilege(own.oid, 'CREATE'),
       NOT EXISTS (
           SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
           WHERE t.tgrelid = to_regclass(%(table)s) AND starts_with(p.proname, %(prefix)s)
             AND NOT pg_has_role(p.proowner, 'USAGE')
       )
FROM pg_class change JOIN pg_namespace own ON own.oid = change.relnamespace
WHERE change.oid = to_regclass('duebox_row_change')
