-- The schema of Duebox's own tables, and the name of the function for the triggers of a table.
SELECT quote_ident(own.nspname), %(prefix)s || left(md5(n.nspname || '.' || c.relname), 12)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
     pg_class change JOIN pg_namespace own ON own.oid = change.relnamespace
WHERE c.oid = to_regclass(%(table)s) AND change.oid = to_regclass('duebox_row_change')
