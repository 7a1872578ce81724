-- Find the rows of a sweep and stamp them, in one statement: a concurrent run finds other rows.
--
-- `found` is the sweep's own query as Django writes it, with FOR NO KEY UPDATE SKIP LOCKED. The statement gives the
-- stamp from before, for a row whose stamp has to be restored, and the new one.
-- The rows are addressed by = ANY(ARRAY(...)), not by a join with a query whose size the planner only guesses.
WITH found (pk, stamp) AS MATERIALIZED (
    {found}
), stamped AS (
    UPDATE {table} AS held
    SET {stamp} = coalesce(%(now)s::timestamptz, statement_timestamp())
    WHERE held.{pk} = ANY(ARRAY(SELECT pk FROM found))
      AND (held.{stamp} IS NULL OR held.{stamp} <= %(expired)s::timestamptz)
    RETURNING held.{pk} AS pk, held.{stamp} AS stamp
)
SELECT found.pk, found.stamp, stamped.stamp FROM found JOIN stamped ON stamped.pk = found.pk
