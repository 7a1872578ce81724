"""The functions by which a worker claims, settles and fires, and finds out when there is more to do.

They are sent all the time, and as plain statements they are planned anew each time: 2.3 ms for a claim that finds
nothing, of which 0.7 ms are left as a function, since the server keeps the plans of functions. Prepared statements are
as fast, but a pooler in transaction mode mixes them up.

A plan that is kept must be right for every size of the tables, also if it was made while they were empty. So it is made
without knowing the arguments (plan_cache_mode), and what is only right for small tables is ruled out: rows of tables are
found by an index or by their place, and never by reading the whole table.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations

PostgresOnly = import_module("duebox.migrations.0001_initial").PostgresOnly

# Lease due deliveries of handlers to one worker, oldest first, with their events. Those of destinations are claimed
# apart: a crowd that waits for a slow one must not be walked over here.
# The rows are addressed by ctid = ANY(ARRAY(...)), never by a join with the LIMITed query: under a generic plan
# that join became a sequential scan (50 ms against 0.2 ms on 60,000 rows).
# A claim lost in a crash of the database is claimed again, so it need not wait for the disk.
CLAIM = """
CREATE OR REPLACE FUNCTION duebox_claim(
    worker bigint, names text[], most int, due_from float8, past text[], moment timestamptz
) RETURNS TABLE (
    id bigint, subscriber text, stream text, attempt smallint, rescues smallint, due float8,
    event_id text, type text, version smallint, occurred float8, aggregate_type text, aggregate_id text,
    organization text, correlation_id text, causation_id text, actor text, producer text, idempotency_key text,
    data text, metadata text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH holder AS MATERIALIZED (
    -- A lease that ran out claims nothing. KEY SHARE lets the heartbeat pass and holds off the rescue.
    SELECT set_config('synchronous_commit', 'off', true)
    FROM duebox_worker w
    WHERE w.id = worker AND w.expires_at > statement_timestamp()
    FOR KEY SHARE
), due AS MATERIALIZED (
    SELECT d.ctid AS place,
           d.stream IS NOT NULL AND EXISTS (
               SELECT FROM duebox_delivery earlier
               WHERE earlier.subscriber = d.subscriber AND earlier.stream = d.stream AND earlier.id < d.id
           ) AS behind
    FROM duebox_delivery d
    WHERE d.status = 'pending'
      AND d.due_at >= to_timestamp(due_from)
      AND d.due_at <= coalesce(moment, statement_timestamp())
      AND d.lease IS NULL
      AND (d.stream IS NULL OR d.stream <> ALL(past))
      AND NOT d.subscriber LIKE 'to:%'
      AND d.subscriber = ANY(names)
      AND EXISTS (SELECT FROM holder)
    ORDER BY d.due_at, d.id
    LIMIT most
    FOR UPDATE OF d SKIP LOCKED
), parked AS (
    -- Only the head of a stream may run; the others leave the due index until they are heads.
    UPDATE duebox_delivery SET status = 'waiting'
    WHERE ctid = ANY(ARRAY(SELECT place FROM due WHERE behind))
    RETURNING id, subscriber, stream, rescues, due_at
), claimed AS (
    UPDATE duebox_delivery SET lease = worker
    WHERE ctid = ANY(ARRAY(SELECT place FROM due WHERE NOT behind))
    RETURNING id, event_id, subscriber, stream, attempt, rescues, due_at
)
SELECT c.id, c.subscriber, c.stream, c.attempt, c.rescues, date_part('epoch', c.due_at),
       e.id::text, e.type, e.version, date_part('epoch', e.occurred_at), e.aggregate_type, e.aggregate_id,
       e.organization, e.correlation_id, e.causation_id::text, e.actor::text, e.producer, e.idempotency_key,
       e.data::text, e.metadata::text
FROM claimed c LEFT JOIN duebox_event e ON e.id = c.event_id
UNION ALL
SELECT p.id, p.subscriber, p.stream, -1::smallint, p.rescues, date_part('epoch', p.due_at),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM parked p;
END $$;
"""

UNCLAIM = "DROP FUNCTION duebox_claim(bigint, text[], int, float8, text[], timestamptz);"

# Delivered: out of the hot table, into the history, in one statement. Only what the lease still owns is touched; gives
# the ids that were not, or NULL, which says that all were. The rows are found by one index scan for the whole array and
# not by a join with it: 6.7 instead of 8.8 µs for each of 500 deliveries. Times are in microseconds: a whole number
# costs the worker a third of what the text of a float does.
SETTLE = """
CREATE OR REPLACE FUNCTION duebox_settle_delivered(
    worker bigint, ids bigint[], starts bigint[], took bigint[], moment timestamptz
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    settled bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM duebox_delivery d
        WHERE d.id = ANY(ids) AND d.lease = worker
        RETURNING d.id, d.event_id, d.subscriber, d.attempt, d.due_at
    ), told AS (
        INSERT INTO duebox_attempt (
            event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at, took_ms, lease
        )
        SELECT gone.event_id, gone.id, gone.subscriber, gone.attempt + 1, 'delivered', gone.due_at,
               to_timestamp(ended.started / 1e6::float8), coalesce(moment, statement_timestamp()), ended.took / 1e3::float8, worker
        FROM gone JOIN unnest(ids, starts, took) AS ended (id, started, took) ON ended.id = gone.id
        RETURNING delivery_id
    )
    SELECT array_agg(delivery_id) INTO settled FROM told;
    IF cardinality(settled) = cardinality(ids) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT id FROM unnest(ids) AS id WHERE id <> ALL(coalesce(settled, '{}')));
END $$;
"""

UNSETTLE = "DROP FUNCTION duebox_settle_delivered(bigint, bigint[], bigint[], bigint[], timestamptz);"

# Seconds until the next delivery to a handler that this process could claim is due, and until the next schedule is;
# nothing where there is none. A schedule that is due already counts as well: below zero.
NEXT = """
CREATE OR REPLACE FUNCTION duebox_next_due(
    names text[], moment timestamptz, OUT delivery float8, OUT schedule float8
) LANGUAGE plpgsql AS $$
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
"""

UNNEXT = "DROP FUNCTION duebox_next_due(text[], timestamptz);"

# Fire: advance the schedules, insert their events and deliveries, wake a sleeping worker.
# A schedule that was changed since it was read has another revision: it is left alone, and so is its event.
# Deliveries that the firing worker can run itself are born under its lease and need no claim.
# A schedule of a plan does not fire while its row, or a row that the plan follows, has a change that was not planned yet
# (duebox_row_change); the caller says with `look` whether there may be such.
# Gives every event that was stored, with each of its deliveries.
FIRE = """
CREATE OR REPLACE FUNCTION duebox_fire(
    worker bigint, moment timestamptz,
    step_id bigint[], step_revision int[], step_status text[], step_due_at timestamptz[], step_occurrence text[],
    step_local_time text[], step_marks text[], step_fired text[], step_remaining int[], step_zone_rules text[],
    step_tz_release text[],
    new_source bigint[], new_id uuid[], new_type text[], new_version smallint[], new_occurred float8[],
    new_aggregate_type text[], new_aggregate_id text[], new_organization text[], new_correlation text[],
    new_causation uuid[], new_actor text[], new_producer text[], new_key text[], new_data text[], new_metadata text[],
    route_event uuid[], route_subscriber text[], route_stream text[], route_mine boolean[],
    look boolean, follow_plan text[], follow_source text[]
) RETURNS TABLE (event text, id bigint, subscriber text, due float8, lease bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := coalesce(moment, statement_timestamp());
    holder bigint;
    advanced bigint[];
    stored uuid[];
BEGIN
    IF worker <> 0 THEN
        SELECT w.id INTO holder FROM duebox_worker w
        WHERE w.id = worker AND w.expires_at > statement_timestamp() FOR KEY SHARE;
    END IF;
    IF look THEN
        -- Whoever changes the rows of schedules that are due locks these. Locked first, the next statement sees what was
        -- committed before.
        PERFORM FROM duebox_schedule WHERE id = ANY(step_id) AND plan <> '' FOR UPDATE SKIP LOCKED;
    END IF;
    WITH free AS MATERIALIZED (
        -- Never wait for somebody who changes a schedule: he may be waiting for another of these.
        SELECT given.*
        FROM unnest(
            step_id, step_revision, step_status, step_due_at, step_occurrence, step_local_time, step_marks, step_fired,
            step_remaining, step_zone_rules, step_tz_release
        ) AS given (
            id, revision, status, due_at, occurrence, local_time, marks, fired, remaining, zone_rules, tz_release
        )
        JOIN duebox_schedule s ON s.id = given.id
        WHERE s.revision = given.revision AND s.status = 'scheduled'
          AND (NOT look OR s.plan = '' OR NOT (
              EXISTS (
                  SELECT FROM duebox_row_change c WHERE c.source = s.aggregate_type AND c.key = s.aggregate_id
              ) OR EXISTS (
                  SELECT FROM duebox_row_change c WHERE c.source = s.aggregate_type AND c.key = ''
              ) OR EXISTS (
                  SELECT FROM duebox_row_change c
                  WHERE c.source = s.aggregate_type AND c.keys IS NOT NULL AND s.aggregate_id = ANY(c.keys)
              ) OR EXISTS (
                  SELECT FROM unnest(follow_plan, follow_source) AS follow (plan, source)
                  JOIN duebox_row_change c ON c.source = follow.source
                  WHERE follow.plan = s.plan
              )
          ))
        FOR UPDATE OF s SKIP LOCKED
    ), moved AS (
        UPDATE duebox_schedule AS s
        SET status = free.status,
            due_at = free.due_at,
            occurrence = free.occurrence,
            local_time = free.local_time,
            marks = free.marks,
            fired = coalesce(free.fired, s.fired),
            fired_at = CASE WHEN free.fired IS NULL THEN s.fired_at ELSE at END,
            remaining = free.remaining,
            zone_rules = free.zone_rules,
            tz_release = free.tz_release,
            revision = s.revision + 1,
            updated_at = at
        FROM free
        WHERE s.id = free.id AND s.revision = free.revision AND s.status = 'scheduled'
        RETURNING s.id
    )
    SELECT array_agg(moved.id) INTO advanced FROM moved;
    IF advanced IS NULL OR cardinality(new_id) = 0 THEN
        RETURN;
    END IF;
    WITH fact AS (
        INSERT INTO duebox_event (
            id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
            correlation_id, causation_id, actor, producer, idempotency_key, data, metadata
        )
        SELECT id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
               correlation, causation, actor::jsonb, producer, key, data::jsonb, metadata::jsonb
        FROM unnest(
            new_source, new_id, new_type, new_version, new_occurred, new_aggregate_type, new_aggregate_id,
            new_organization, new_correlation, new_causation, new_actor, new_producer, new_key, new_data, new_metadata
        ) AS given (
            source, id, type, version, occurred, aggregate_type, aggregate_id, organization,
            correlation, causation, actor, producer, key, data, metadata
        )
        WHERE NOT starts_with(type, 'public.')
          AND (cardinality(advanced) = cardinality(step_id) OR source = ANY(advanced))
        ORDER BY type, key
        ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id
    )
    SELECT coalesce(array_agg(fact.id), '{}') INTO stored FROM fact;
    IF cardinality(stored) < cardinality(new_id) THEN
        -- What others may see of an event goes with it, or not at all.
        WITH twin AS (
            INSERT INTO duebox_event (
                id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
                correlation_id, causation_id, actor, producer, data, metadata
            )
            SELECT id, type, version, to_timestamp(occurred), aggregate_type, aggregate_id, organization,
                   correlation, causation, actor::jsonb, producer, data::jsonb, metadata::jsonb
            FROM unnest(
                new_id, new_type, new_version, new_occurred, new_aggregate_type, new_aggregate_id, new_organization,
                new_correlation, new_causation, new_actor, new_producer, new_data, new_metadata
            ) AS given (
                id, type, version, occurred, aggregate_type, aggregate_id, organization,
                correlation, causation, actor, producer, data, metadata
            )
            WHERE starts_with(type, 'public.') AND causation = ANY(stored)
            RETURNING id
        )
        SELECT stored || array_agg(twin.id) INTO stored FROM twin;
    END IF;
    RETURN QUERY
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at, lease)
    SELECT route.event_id, route.subscriber, route.stream, at, CASE WHEN route.mine THEN holder END
    FROM unnest(route_event, route_subscriber, route_stream, route_mine)
         WITH ORDINALITY AS route (event_id, subscriber, stream, mine, position)
    WHERE cardinality(stored) = cardinality(new_id) OR route.event_id = ANY(stored)
    ORDER BY route.position
    RETURNING event_id::text, id, subscriber, date_part('epoch', due_at), lease;
    IF FOUND AND (holder IS NULL OR false = ANY(route_mine))
       AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp()) THEN
        PERFORM pg_notify('duebox', '');
    END IF;
    -- Events that no subscriber receives.
    RETURN QUERY
    SELECT alone.id::text, NULL::bigint, NULL::text, NULL::float8, NULL::bigint
    FROM (SELECT unnest(stored) AS id EXCEPT SELECT unnest(route_event)) AS alone;
END $$;
"""

UNFIRE = "DROP FUNCTION duebox_fire;"

# Sorting is ruled out as well for what walks a due index: the order of the index is the one that is wanted.
BY_INDEX = """
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['duebox_claim', 'duebox_settle_delivered', 'duebox_next_due', 'duebox_fire'] LOOP
        EXECUTE format(
            'ALTER FUNCTION %I SET plan_cache_mode = force_generic_plan SET enable_seqscan = off '
            'SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off', name
        );
    END LOOP;
END $$;
ALTER FUNCTION duebox_claim SET enable_sort = off;
ALTER FUNCTION duebox_next_due SET enable_sort = off;
-- It joins no table, only what it has deleted with its own arguments.
ALTER FUNCTION duebox_settle_delivered RESET enable_hashjoin;
"""


class Migration(migrations.Migration):
    dependencies = [("duebox", "0009_dead_letters")]

    operations = [
        PostgresOnly(CLAIM, UNCLAIM),
        PostgresOnly(SETTLE, UNSETTLE),
        PostgresOnly(NEXT, UNNEXT),
        PostgresOnly(FIRE, UNFIRE),
        PostgresOnly(BY_INDEX, migrations.RunSQL.noop),
    ]
