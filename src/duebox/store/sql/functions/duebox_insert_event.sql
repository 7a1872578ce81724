-- Inserts one event, its deliveries and the wake-up. Internal: `emit_one` calls it. It is a function, because the
-- server keeps its plans, also behind a pooler, where prepared statements do not work. Returns false if an event with
-- this idempotency key exists.
CREATE OR REPLACE FUNCTION duebox_insert_event(
    new_id uuid, new_type text, new_version smallint, occurred float8, new_aggregate_type text, new_aggregate_id text,
    new_organization text, correlation text, causation uuid, new_actor jsonb, new_producer text, key text,
    new_data jsonb, new_metadata jsonb, subscribers text[], streams text[], moment timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO duebox_event (
        id, type, version, occurred_at, aggregate_type, aggregate_id, organization,
        correlation_id, causation_id, actor, producer, idempotency_key, data, metadata
    )
    VALUES (
        new_id, new_type, new_version, to_timestamp(occurred), new_aggregate_type, new_aggregate_id, new_organization,
        correlation, causation, new_actor, new_producer, key, new_data, new_metadata
    )
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at)
    SELECT new_id, route.subscriber, route.stream, coalesce(moment, statement_timestamp())
    FROM unnest(subscribers, streams) AS route (subscriber, stream);
    -- NOTIFY in every commit halves the rate of concurrent inserts, so it is sent only while a worker waits for it.
    IF FOUND AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp()) THEN
        PERFORM pg_notify('duebox', '');
    END IF;
    RETURN true;
END $$;
