-- Make deliveries due now, with all their attempts available; the history names who requested it. They are locked by
-- delivery_lock.sql, so no other transaction changes them meanwhile. There are `step` seconds between one and the next,
-- so that they are not all retried at the same time.
WITH given AS (
    SELECT id, position FROM unnest(%(id)s::bigint[]) WITH ORDINALITY AS given (id, position)
), back AS (
    UPDATE duebox_delivery d
    SET status = 'pending', lease = NULL, attempt = 0, rescues = 0, died_at = NULL, fingerprint = NULL,
        due_at = coalesce(%(now)s::timestamptz, statement_timestamp())
               + greatest(0, %(delay)s + (given.position - 1) * %(step)s) * interval '1 second'
    FROM given
    WHERE d.id = given.id AND d.id = ANY(%(id)s::bigint[])
    RETURNING d.id, d.event_id, d.subscriber, d.due_at
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'redriven', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM back ORDER BY id
), woken AS (
    SELECT pg_notify('duebox', 'later') WHERE EXISTS (SELECT FROM back)
)
SELECT id, (SELECT count(*) FROM woken) FROM back ORDER BY id
