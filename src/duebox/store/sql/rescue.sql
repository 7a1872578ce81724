-- Release the deliveries of lost workers. A delivery on its last attempt is announced and runs alone, and only the
-- announced one becomes a dead letter: others in the same batch never do. The rows must be found again by their ctid.
-- One that changed after the snapshot is checked again when it is locked, but not against duebox_worker: it may have
-- been freed and claimed by a live worker. Its new ctid is not in this snapshot, so that the UPDATE does not find it;
-- by its id it would.
WITH inside AS MATERIALIZED (
    SELECT d.ctid AS place
    FROM duebox_delivery d
    WHERE d.status = 'pending' AND d.lease IS NOT NULL AND NOT d.subscriber LIKE 'to:%%'
      AND d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      AND NOT EXISTS (SELECT FROM duebox_worker w WHERE w.id = d.lease)
    FOR UPDATE OF d SKIP LOCKED
), outside AS MATERIALIZED (
    SELECT d.ctid AS place
    FROM duebox_delivery d
    WHERE d.status = 'pending' AND d.lease IS NOT NULL AND d.subscriber LIKE 'to:%%'
      AND d.due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      AND NOT EXISTS (SELECT FROM duebox_worker w WHERE w.id = d.lease)
    FOR UPDATE OF d SKIP LOCKED
), orphan AS (
    SELECT place FROM inside UNION ALL SELECT place FROM outside
), freed AS (
    UPDATE duebox_delivery d
    SET lease = NULL,
        rescues = d.rescues + (d.rescues + 1 < %(limit)s OR d.id = ANY(%(suspects)s))::int,
        status = CASE
            WHEN d.id = ANY(%(suspects)s) AND d.rescues + 1 >= %(limit)s THEN 'dead' ELSE d.status
        END,
        fingerprint = CASE WHEN d.id = ANY(%(suspects)s) AND d.rescues + 1 >= %(limit)s THEN %(fingerprint)s END,
        died_at = CASE
            WHEN d.id = ANY(%(suspects)s) AND d.rescues + 1 >= %(limit)s
            THEN coalesce(%(now)s::timestamptz, statement_timestamp())
        END,
        stream = CASE
            WHEN d.id = ANY(%(suspects)s) AND d.rescues + 1 >= %(limit)s AND d.subscriber = ANY(%(skipping)s) THEN NULL
            ELSE d.stream
        END
    WHERE d.ctid = ANY(ARRAY(SELECT place FROM orphan))
    RETURNING d.id, d.event_id, d.subscriber, d.attempt, d.due_at, d.rescues, d.status
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, note)
    SELECT event_id, id, subscriber, attempt + 1,
           CASE WHEN status = 'dead' THEN 'dead' ELSE 'rescued' END, due_at,
           CASE WHEN status = 'dead'
                THEN 'Workers were lost ' || rescues || ' times while running it; it may be the cause.'
                ELSE 'The worker that held it was lost.' END
    FROM freed
)
SELECT id, event_id::text, subscriber, status, attempt, rescues FROM freed
