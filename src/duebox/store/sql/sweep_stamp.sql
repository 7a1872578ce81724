-- Find the rows that a sweep wants and stamp them, in one statement: whoever looks at the same time finds others.
--
-- `found` is the sweep's own question as Django writes it: in the order of the primary key, with LIMIT and
-- FOR NO KEY UPDATE SKIP LOCKED. It gives the stamp from before, for a row that has to be given back.
-- The rows are addressed by = ANY(ARRAY(...)), not by a join with a LIMITed query, whose size the planner only guesses.
WITH found (pk, stamp) AS MATERIALIZED (
    {found}
), stamped AS (
    UPDATE {table} AS held
    SET {stamp} = coalesce(%(now)s::timestamptz, statement_timestamp())
    WHERE held.{pk} = ANY(ARRAY(SELECT pk FROM found))
      AND (
          held.{stamp} IS NULL
          OR held.{stamp} <= coalesce(%(now)s::timestamptz, statement_timestamp()) - %(again_after)s::interval
      )
    RETURNING held.{pk} AS pk
)
SELECT found.pk, found.stamp FROM found JOIN stamped ON stamped.pk = found.pk ORDER BY found.pk
