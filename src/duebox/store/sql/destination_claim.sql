-- Lease due deliveries of destinations to one worker, with their events: of each destination the oldest, and as many as
-- the worker has room for, so that one destination never uses the capacity of another.
WITH holder AS MATERIALIZED (
    -- As in duebox_claim.sql: an expired lease claims nothing, and a claim need not wait for the disk.
    SELECT set_config('synchronous_commit', 'off', true)
    FROM duebox_worker
    WHERE id = %(lease)s AND expires_at > statement_timestamp()
    FOR KEY SHARE
), due AS MATERIALIZED (
    SELECT found.place, found.behind
    FROM unnest(%(subscriber)s::text[], %(many)s::int[]) AS wanted (subscriber, many)
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place,
               d.stream IS NOT NULL AND EXISTS (
                   SELECT FROM duebox_delivery earlier
                   WHERE earlier.subscriber = d.subscriber AND earlier.stream = d.stream AND earlier.id < d.id
               ) AS behind
        FROM duebox_delivery d
        WHERE d.status = 'pending' AND d.subscriber LIKE 'to:%%'
          AND d.subscriber = wanted.subscriber
          AND d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
          AND d.lease IS NULL
          AND (d.stream IS NULL OR d.stream <> ALL(%(past)s::text[]))
          AND EXISTS (SELECT FROM holder)
        ORDER BY d.due_at, d.id
        LIMIT wanted.many
        FOR UPDATE OF d SKIP LOCKED
    ) found
), waiting AS (
    UPDATE duebox_delivery SET status = 'waiting'
    WHERE ctid = ANY(ARRAY(SELECT place FROM due WHERE behind))
    RETURNING id, event_id, subscriber, stream, attempt, rescues, due_at
), claimed AS (
    UPDATE duebox_delivery SET lease = %(lease)s
    WHERE ctid = ANY(ARRAY(SELECT place FROM due WHERE NOT behind))
    RETURNING id, event_id, subscriber, stream, attempt, rescues, due_at
)
SELECT c.id, c.subscriber, c.stream, c.attempt, c.rescues, date_part('epoch', c.due_at),
       e.id::text, e.type, e.version, date_part('epoch', e.occurred_at), e.aggregate_type, e.aggregate_id,
       e.organization, e.correlation_id, e.causation_id::text, e.actor::text, e.producer, e.idempotency_key,
       e.data::text, e.metadata::text
FROM claimed c LEFT JOIN duebox_event e ON e.id = c.event_id
UNION ALL
SELECT w.id, w.subscriber, w.stream, -1, w.rescues, date_part('epoch', w.due_at),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM waiting w
