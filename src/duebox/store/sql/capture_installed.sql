-- The tables that have a trigger of ours, each with its function and the comment on it. Tables of Duebox in another
-- schema have functions of their own beside them: they belong to another tenant or project.
SELECT DISTINCT t.tgrelid::regclass::text, p.oid::regproc::text, coalesce(obj_description(p.oid, 'pg_proc'), '')
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE starts_with(p.proname, %(prefix)s) AND NOT t.tgisinternal AND t.tgparentid = 0
  AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('duebox_row_change'))
ORDER BY 1
