-- Fire: advance the schedules, insert their events and deliveries, wake a sleeping worker.
-- A schedule that was changed since it was read has another revision: it does not fire.
-- Deliveries that the firing worker can run itself are created with its lease and need no claim. A schedule of a plan
-- does not fire while its row, or a row that the plan follows, has a change that was not planned yet
-- (duebox_row_change); the caller passes in `look` whether there may be such changes. Those in `refreshed` it has
-- planned again in this transaction: their rows are locked, and a change of a row that the plan follows that is
-- committed since comes after the firing.
-- The status is compared as an expression, so that the rows can only be found by their id. If the statistics are from a
-- time when few were scheduled, the planner expects the index of those to be small and reads all of it: with 10,000
-- scheduled, the firing of one took 40 ms, and that of 500 took 6 s.
-- Returns every event that was stored, with each of its deliveries; and without an event, the ids of schedules that did
-- not fire.
--
-- The settings are explained in duebox_claim.sql.
CREATE OR REPLACE FUNCTION duebox_fire(
    worker bigint, moment timestamptz,
    step_id bigint[], step_revision int[], step_status text[], step_due_at timestamptz[], step_occurrence text[],
    step_local_time text[], step_marks text[], step_fired text[], step_remaining int[], step_zone_rules text[],
    step_tz_release text[],
    new_source bigint[], new_id uuid[], new_type text[], new_version smallint[], new_occurred float8[],
    new_aggregate_type text[], new_aggregate_id text[], new_organization text[], new_correlation text[],
    new_causation uuid[], new_actor text[], new_producer text[], new_key text[], new_data text[], new_metadata text[],
    route_event uuid[], route_subscriber text[], route_stream text[], route_mine boolean[],
    look boolean, follow_plan text[], follow_source text[], refreshed bigint[]
) RETURNS TABLE (event text, id bigint, subscriber text, due float8, lease bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := coalesce(moment, statement_timestamp());
    holder bigint;
    held bigint[];
    advanced bigint[];
    stored uuid[];
    since xid8;
BEGIN
    IF worker <> 0 THEN
        SELECT w.id INTO holder FROM duebox_worker w
        WHERE w.id = worker AND w.expires_at > statement_timestamp() FOR KEY SHARE;
    END IF;
    IF look THEN
        -- A transaction that changes the rows of schedules that are due locks these schedules. Only those that are locked
        -- here fire: the next statement sees all changes that were committed before. One that is locked by another
        -- transaction now may be free when the next statement comes to it, but that statement does not see the change.
        SELECT coalesce(array_agg(locked.id), '{}') INTO held FROM (
            SELECT id FROM duebox_schedule WHERE id = ANY(step_id) AND plan <> '' FOR UPDATE SKIP LOCKED
        ) AS locked;
        IF cardinality(follow_plan) > 0 THEN
            since := duebox_row_changes_from();
        END IF;
    END IF;
    WITH open AS MATERIALIZED (
        SELECT source FROM duebox_row_change WHERE transaction_id >= since ORDER BY transaction_id LIMIT 1000
    ), pending AS MATERIALIZED (
        -- The plans that follow rows with changes; all of them if there are very many changes.
        SELECT follow.plan FROM unnest(follow_plan, follow_source) AS follow (plan, source)
        WHERE follow.source IN (SELECT open.source FROM open) OR (SELECT count(*) FROM open) = 1000
    ), free AS MATERIALIZED (
        -- Never wait for a transaction that changes a schedule: it may be waiting for another of these.
        SELECT given.*
        FROM unnest(
            step_id, step_revision, step_status, step_due_at, step_occurrence, step_local_time, step_marks, step_fired,
            step_remaining, step_zone_rules, step_tz_release
        ) AS given (
            id, revision, status, due_at, occurrence, local_time, marks, fired, remaining, zone_rules, tz_release
        )
        JOIN duebox_schedule s ON s.id = given.id
        WHERE s.revision = given.revision AND s.status || '' = 'scheduled'
          AND (NOT look OR s.plan = '' OR s.id = ANY(refreshed) OR s.id = ANY(held) AND NOT (
              EXISTS (
                  SELECT FROM duebox_row_change c WHERE c.source = s.aggregate_type AND c.key = s.aggregate_id
              ) OR EXISTS (
                  SELECT FROM duebox_row_change c WHERE c.source = s.aggregate_type AND c.key = ''
              ) OR EXISTS (
                  SELECT FROM duebox_row_change c
                  WHERE c.source = s.aggregate_type AND c.keys IS NOT NULL AND s.aggregate_id = ANY(c.keys)
              ) OR EXISTS (
                  SELECT FROM pending WHERE pending.plan = s.plan
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
        WHERE s.id = free.id AND s.revision = free.revision AND s.status || '' = 'scheduled'
        RETURNING s.id
    )
    SELECT coalesce(array_agg(moved.id), '{}') INTO advanced FROM moved;
    IF cardinality(advanced) < cardinality(step_id) THEN
        RETURN QUERY
        SELECT NULL::text, given.id, NULL::text, NULL::float8, NULL::bigint
        FROM unnest(step_id) AS given (id) WHERE given.id <> ALL(advanced);
    END IF;
    IF cardinality(advanced) = 0 OR cardinality(new_id) = 0 THEN
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
        -- The public event is stored together with its event, or not at all.
        WITH public_fact AS (
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
        SELECT stored || array_agg(public_fact.id) INTO stored FROM public_fact;
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
