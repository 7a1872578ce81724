-- Settle delivered deliveries: delete the rows and write the history, in one statement. Only rows that the lease still
-- owns are changed; returns the ids that were not, or NULL if all were. The rows are found by one index scan for the
-- whole array and not by a join with it: 6.7 instead of 8.8 µs for each of 500 deliveries. Times are in microseconds: a
-- whole number costs the worker a third of what the text of a float does.
--
-- The settings are explained in duebox_claim.sql. A hash join is allowed: it joins no table, only the deleted rows with
-- the arguments.
CREATE OR REPLACE FUNCTION duebox_settle_delivered(
    worker bigint, ids bigint[], starts bigint[], took bigint[], moment timestamptz
) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    settled bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM duebox_delivery d
        WHERE d.id = ANY(ids) AND d.lease = worker
        RETURNING d.id, d.event_id, d.subscriber, d.attempt, d.due_at
    ), logged AS (
        INSERT INTO duebox_attempt (
            event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at, took_ms, lease
        )
        SELECT gone.event_id, gone.id, gone.subscriber, gone.attempt + 1, 'delivered', gone.due_at,
               to_timestamp(ended.started / 1e6::float8), coalesce(moment, statement_timestamp()), ended.took / 1e3::float8, worker
        FROM gone JOIN unnest(ids, starts, took) AS ended (id, started, took) ON ended.id = gone.id
        RETURNING delivery_id
    )
    SELECT array_agg(delivery_id) INTO settled FROM logged;
    IF cardinality(settled) = cardinality(ids) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT id FROM unnest(ids) AS id WHERE id <> ALL(coalesce(settled, '{}')));
END $$;
