-- Dead letters become due again, with all their attempts before them; who asked is kept in the history.
-- `step` seconds lie between one and the next, so that a crowd that died together does not come back together.
WITH given AS (
    SELECT id, position FROM unnest(%(id)s::bigint[]) WITH ORDINALITY AS given (id, position)
), chosen AS MATERIALIZED (
    SELECT d.id, given.position
    FROM duebox_delivery d JOIN given ON given.id = d.id
    WHERE d.status IN ('dead', 'parked') AND d.id = ANY(%(id)s::bigint[])
    ORDER BY d.id -- so that two who ask for the same do not deadlock
    FOR UPDATE OF d
), back AS (
    UPDATE duebox_delivery d
    SET status = 'pending', attempt = 0, rescues = 0, died_at = NULL, fingerprint = NULL,
        due_at = coalesce(%(now)s::timestamptz, statement_timestamp())
               + greatest(0, %(delay)s + (chosen.position - 1) * %(step)s) * interval '1 second'
    FROM chosen
    WHERE d.id = chosen.id
    RETURNING d.id, d.event_id, d.subscriber, d.due_at
), told AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'redriven', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM back ORDER BY id
), woken AS (
    SELECT pg_notify('duebox', '') WHERE EXISTS (SELECT FROM back)
)
SELECT id, (SELECT count(*) FROM woken) FROM back ORDER BY id
