-- A table and its partitions, as the server writes their names. Statements that name a partition fire its own triggers.
SELECT to_regclass(%(table)s)::text WHERE to_regclass(%(table)s) IS NOT NULL
UNION
SELECT relid::regclass::text FROM pg_partition_tree(to_regclass(%(table)s))
ORDER BY 1
