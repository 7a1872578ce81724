-- Create a delivery of one public event for each endpoint of its organization that subscribes to it. A disabled
-- endpoint gets a line in the history instead, so that missed events can be found and sent later. The organization is
-- read from the event itself, so a caller cannot pass another one. It is a function, because the server keeps its plan,
-- and planning takes as long as running; it is one statement, because each statement has its own snapshot of the
-- endpoints.
CREATE OR REPLACE FUNCTION duebox_fan_out(
    given uuid[], prefix text, moment timestamptz, OUT routed bigint, OUT missed bigint
) LANGUAGE plpgsql AS $$
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT endpoint.id, endpoint.disabled_at, endpoint.disabled_reason, event.id AS event_id, place
        FROM unnest(given) WITH ORDINALITY AS asked (event_id, place)
        JOIN duebox_event event ON event.id = asked.event_id
        JOIN duebox_webhook_endpoint endpoint ON endpoint.organization = event.organization
        WHERE starts_with(event.type, 'public.')
          AND event.organization <> ''
          AND EXISTS (
              SELECT FROM jsonb_array_elements_text(endpoint.types) pattern
              WHERE substr(event.type, 8) LIKE replace(replace(pattern, '_', '\_'), '*', '%')
          )
    ), delivery AS (
        INSERT INTO duebox_delivery (event_id, subscriber, due_at)
        SELECT event_id, prefix || id::text, coalesce(moment, statement_timestamp())
        FROM wanted WHERE disabled_at IS NULL
        ORDER BY place
        RETURNING 1
    ), attempt AS (
        INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
        SELECT event_id, nextval(pg_get_serial_sequence('duebox_delivery', 'id')), prefix || id::text, 0, 'discarded',
               coalesce(moment, statement_timestamp()), coalesce(moment, statement_timestamp()),
               'the endpoint is disabled' || coalesce(': ' || nullif(disabled_reason, ''), '')
        FROM wanted WHERE disabled_at IS NOT NULL
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM delivery), (SELECT count(*) FROM attempt) INTO routed, missed;
    -- NOTIFY in every commit halves the rate of concurrent inserts, so it is sent only while a worker waits for it.
    IF routed > 0 AND EXISTS (
        SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp()
    ) THEN
        PERFORM pg_notify('duebox', '');
    END IF;
END $$;
