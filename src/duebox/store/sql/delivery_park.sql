-- Park deliveries: no worker claims them, and they are listed separately. One in a stream blocks those behind it. They
-- are locked by delivery_lock.sql.
WITH aside AS (
    UPDATE duebox_delivery SET status = 'parked', lease = NULL
    WHERE id = ANY(%(id)s::bigint[])
    RETURNING id, event_id, subscriber, due_at
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'parked', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM aside ORDER BY id
)
SELECT id FROM aside ORDER BY id
