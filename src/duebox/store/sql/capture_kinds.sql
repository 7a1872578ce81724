-- The kinds of a table and its partitions, in the letters of pg_class: f is a foreign table, v and m are views.
WITH RECURSIVE part AS (
    SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = to_regclass(%(table)s)
    UNION
    SELECT c.oid, c.relkind FROM part JOIN pg_inherits i ON i.inhparent = part.oid JOIN pg_class c ON c.oid = i.inhrelid
)
SELECT DISTINCT relkind::text FROM part
