-- Dead letters become due again, with all their attempts before them; who asked is kept in the history.
WITH back AS (
    UPDATE duebox_delivery
    SET status = 'pending', attempt = 0, rescues = 0,
        due_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    WHERE status = 'dead' AND id = ANY(%(id)s)
    RETURNING id, event_id, subscriber, due_at
), told AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, note)
    SELECT event_id, id, subscriber, 0, 'redriven', due_at, %(note)s FROM back
), woken AS (
    SELECT pg_notify('duebox', '') WHERE EXISTS (SELECT FROM back)
)
SELECT id, (SELECT count(*) FROM woken) FROM back
