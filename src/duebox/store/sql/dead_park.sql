-- Dead letters are set aside: counted no more, listed apart, and kept. One in a stream still blocks it.
WITH aside AS (
    UPDATE duebox_delivery SET status = 'parked'
    WHERE id = ANY(ARRAY(
        SELECT id FROM duebox_delivery WHERE id = ANY(%(id)s::bigint[]) AND status = 'dead' ORDER BY id FOR UPDATE
    ))
    RETURNING id, event_id, subscriber, due_at
), told AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'parked', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM aside ORDER BY id
)
SELECT id FROM aside ORDER BY id
