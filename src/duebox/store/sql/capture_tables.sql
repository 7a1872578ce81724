-- A table and its partitions, as the server writes their names. Statements that name a partition fire its own triggers.
-- No row if a view or a foreign table is among them: these cannot have triggers with transition tables.
WITH RECURSIVE part AS (
    SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = to_regclass(%(table)s)
    UNION
    SELECT c.oid, c.relkind FROM part JOIN pg_inherits i ON i.inhparent = part.oid JOIN pg_class c ON c.oid = i.inhrelid
)
SELECT oid::regclass::text FROM part
WHERE NOT EXISTS (SELECT FROM part WHERE relkind NOT IN ('r', 'p'))
ORDER BY 1
