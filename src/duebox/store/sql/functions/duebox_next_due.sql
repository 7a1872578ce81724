-- Seconds until the next delivery to a handler that this process could claim is due, and until the next schedule is;
-- NULL if there is none. For a schedule that is due already it is negative.
--
-- The settings are explained in duebox_claim.sql.
CREATE OR REPLACE FUNCTION duebox_next_due(
    names text[], moment timestamptz, OUT delivery float8, OUT schedule float8
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET enable_sort = off AS $$
BEGIN
    delivery := extract(epoch FROM (
        SELECT d.due_at FROM duebox_delivery d
        WHERE d.status = 'pending'
          AND NOT d.subscriber LIKE 'to:%'
          AND d.due_at > coalesce(moment, statement_timestamp())
          AND d.subscriber = ANY(names)
        ORDER BY d.due_at, d.id LIMIT 1
    ) - coalesce(moment, statement_timestamp()));
    schedule := extract(epoch FROM (
        SELECT s.due_at FROM duebox_schedule s WHERE s.status = 'scheduled' ORDER BY s.due_at, s.id LIMIT 1
    ) - coalesce(moment, statement_timestamp()));
END $$;
