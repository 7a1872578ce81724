-- Retried, snoozed or dead: the delivery stays, with its next fate. Discarded: it goes. The history gets a line each.
-- Only what the lease still owns is touched; the ids that were are returned.
WITH ended AS (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(started)s::float8[], %(took_ms)s::float8[], %(outcome)s::text[], %(note)s::text[],
        %(due)s::timestamptz[], %(after)s::float8[], %(burns)s::smallint[], %(leaves_stream)s::boolean[]
    ) AS ended (id, started, took_ms, outcome, note, due, after, burns, leaves_stream)
), mine AS (
    SELECT d.id, d.event_id, d.subscriber, d.attempt + 1 AS number, d.due_at
    FROM duebox_delivery d
    WHERE d.id = ANY(%(id)s::bigint[]) AND d.lease = %(lease)s
    FOR UPDATE
), kept AS (
    UPDATE duebox_delivery d
    SET lease = NULL,
        attempt = d.attempt + ended.burns,
        rescues = CASE WHEN ended.outcome = 'retried' AND ended.burns = 0 THEN d.rescues + 1 ELSE 0 END,
        status = CASE WHEN ended.outcome = 'dead' THEN 'dead' ELSE d.status END,
        stream = CASE WHEN ended.leaves_stream THEN NULL ELSE d.stream END,
        -- Never before it was due: the claim does not look there.
        due_at = greatest(d.due_at, coalesce(
            ended.due,
            coalesce(%(now)s::timestamptz, statement_timestamp()) + ended.after * interval '1 second'
        ))
    FROM mine JOIN ended USING (id)
    WHERE d.id = mine.id AND ended.outcome <> 'discarded'
), gone AS (
    DELETE FROM duebox_delivery d
    USING mine JOIN ended USING (id)
    WHERE d.id = mine.id AND ended.outcome = 'discarded'
), told AS (
    INSERT INTO duebox_attempt (
        event_id, delivery_id, subscriber, number, outcome, due_at, started_at, settled_at, took_ms, lease, note
    )
    SELECT mine.event_id, mine.id, mine.subscriber, mine.number, ended.outcome, mine.due_at,
           to_timestamp(ended.started), coalesce(%(now)s::timestamptz, statement_timestamp()), ended.took_ms, %(lease)s, ended.note
    FROM mine JOIN ended USING (id)
    RETURNING delivery_id
)
SELECT array_agg(delivery_id) FROM told
