-- The tables of Duebox: storage parameters, living and dead rows as the statistics count them, invalid indexes, and the
-- triggers that are enabled.
SELECT t.relname, coalesce(t.reloptions, '{}'), coalesce(stat.n_live_tup, 0), coalesce(stat.n_dead_tup, 0),
       ARRAY(
           SELECT i.indexrelid::regclass::text FROM pg_index i
           WHERE i.indrelid = t.oid AND NOT (i.indisvalid AND i.indisready) ORDER BY 1
       ),
       ARRAY(
           SELECT g.tgname::text FROM pg_trigger g
           WHERE g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D' ORDER BY 1
       )
FROM unnest(%(table)s::text[]) AS wanted (name)
JOIN pg_class t ON t.oid = to_regclass(wanted.name)
LEFT JOIN pg_stat_all_tables stat ON stat.relid = t.oid
