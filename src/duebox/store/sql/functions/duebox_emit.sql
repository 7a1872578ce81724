-- Emits an event from SQL, other languages, and other services that share the database. It has no access to the
-- subscribers, so the event gets one delivery, to `duebox.route`; a worker validates the event and creates the other
-- deliveries.
--
-- SECURITY DEFINER: another role needs the right to execute this function and no rights on the tables, which would
-- allow it to pass anything to handlers. Hence the fixed search_path, and no role may execute it unless granted. NULL
-- means the default for every argument. Messages never contain values of data, actor or keys: they are written to the
-- log of the server.
CREATE OR REPLACE FUNCTION duebox_emit(
    type text,
    data jsonb DEFAULT '{}',
    about_type text DEFAULT '',
    about_id text DEFAULT '',
    organization text DEFAULT '',
    actor jsonb DEFAULT NULL,
    correlation_id text DEFAULT '',
    idempotency_key text DEFAULT NULL,
    version int DEFAULT 1,
    occurred_at timestamptz DEFAULT NULL,
    metadata jsonb DEFAULT '{}',
    causation_id uuid DEFAULT NULL,
    producer text DEFAULT '',
    on_conflict text DEFAULT 'error',
    expires timestamptz DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    new_id uuid := duebox_uuid7();
    new_version int := coalesce(duebox_emit.version, 1);
    kind text := coalesce(about_type, '');
    key text := coalesce(about_id, '');
    tenant text := coalesce(duebox_emit.organization, '');
    payload jsonb := coalesce(duebox_emit.data, '{}');
    extra jsonb := coalesce(duebox_emit.metadata, '{}');
    who jsonb := nullif(duebox_emit.actor, 'null'::jsonb);
    wrong text;
    first duebox_event;
BEGIN
    wrong := CASE
        WHEN coalesce(duebox_emit.type, '') !~ '^[a-z0-9_]+(\.[a-z0-9_]+)+$'
            THEN 'type is not the name of an event type; write lower snake case, as in order.paid'
        WHEN duebox_emit.type ~ '^(duebox|public)\.'
            THEN 'types that begin with duebox. or public. are emitted by Duebox itself; choose another name'
        WHEN jsonb_typeof(payload) <> 'object' THEN 'data must be a JSON object'
        WHEN jsonb_typeof(extra) <> 'object' THEN 'metadata must be a JSON object'
        WHEN (kind = '') <> (key = '') THEN 'about_type and about_id belong together; pass both or none'
        WHEN new_version NOT BETWEEN 1 AND 32767 THEN 'version must be a whole number from 1 to 32767'
        WHEN duebox_emit.idempotency_key = '' THEN 'idempotency_key is empty; pass a key, or NULL'
        WHEN NOT isfinite(expires) THEN 'expires must be a moment, or NULL'
        WHEN coalesce(on_conflict, 'error') NOT IN ('error', 'first') THEN 'on_conflict must be error or first'
        WHEN who IS NOT NULL AND (
            jsonb_typeof(who) <> 'object'
            OR who - '{type,id,email}'::text[] <> '{}'
            OR NOT coalesce(jsonb_typeof(who -> 'type') = 'string' AND who ->> 'type' <> '', false)
            OR NOT coalesce(jsonb_typeof(who -> 'id') = 'string' AND who ->> 'id' <> '', false)
            OR jsonb_typeof(who -> 'email') <> 'string'
        )
            THEN 'actor must be an object with the texts type and id, and perhaps email'
        ELSE (
            SELECT name || ' must be at most 500 printable characters'
            FROM (VALUES
                ('type', duebox_emit.type), ('about_type', kind), ('about_id', key), ('organization', tenant),
                ('correlation_id', duebox_emit.correlation_id), ('idempotency_key', duebox_emit.idempotency_key),
                ('producer', duebox_emit.producer), ('type of the actor', who ->> 'type'),
                ('id of the actor', who ->> 'id'), ('email of the actor', who ->> 'email')
            ) AS given (name, value)
            WHERE length(value) > 500 OR value ~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]'
            LIMIT 1
        )
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'duebox_emit: %.', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF expires IS NOT NULL THEN
        extra := extra || jsonb_build_object(
            'duebox.expires_at', to_char(expires AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
        );
    END IF;
    -- In a stream, so that events of one aggregate are routed in the order of their commits.
    IF duebox_insert_event(
        new_id, duebox_emit.type, new_version::smallint,
        extract(epoch FROM coalesce(duebox_emit.occurred_at, clock_timestamp()))::float8, kind, key, tenant,
        coalesce(nullif(duebox_emit.correlation_id, ''), new_id::text), duebox_emit.causation_id,
        who, coalesce(nullif(duebox_emit.producer, ''), session_user::text),
        duebox_emit.idempotency_key, payload, extra,
        ARRAY['duebox.route'], ARRAY[CASE WHEN kind <> '' THEN kind || ':' || key END], NULL
    ) THEN
        RETURN new_id;
    END IF;
    SELECT * INTO first FROM duebox_event e
    WHERE e.type = duebox_emit.type AND e.idempotency_key = duebox_emit.idempotency_key;
    IF first.id IS NULL THEN
        RAISE EXCEPTION 'duebox_emit: the first % with this idempotency_key was removed meanwhile; emit again.',
            duebox_emit.type USING ERRCODE = 'serialization_failure';
    END IF;
    wrong := concat_ws(', ',
        CASE WHEN first.data <> payload THEN 'data' END,
        CASE WHEN (first.aggregate_type, first.aggregate_id) <> (kind, key) THEN 'about' END,
        CASE WHEN first.organization <> tenant THEN 'organization' END,
        CASE WHEN first.version <> new_version THEN 'version' END
    );
    IF wrong <> '' AND coalesce(on_conflict, 'error') = 'error' THEN
        RAISE EXCEPTION 'duebox_emit: % was already emitted with this idempotency_key as %, with a different %.',
            duebox_emit.type, first.id, wrong
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'duebox_event_once_per_key',
                  HINT = 'Use another key, or pass on_conflict => ''first'' to take the first one.';
    END IF;
    RETURN first.id;
END $$;
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION duebox_emit SET search_path = %I, pg_temp', current_schema());
END $$;
REVOKE ALL ON FUNCTION duebox_emit FROM PUBLIC;
