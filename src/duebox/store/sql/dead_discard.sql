-- Dead letters are given up: the delivery goes, the history says why.
WITH gone AS (
    DELETE FROM duebox_delivery
    WHERE id = ANY(ARRAY(
        SELECT id FROM duebox_delivery
        WHERE id = ANY(%(id)s::bigint[]) AND status IN ('dead', 'parked')
        ORDER BY id
        FOR UPDATE
    ))
    RETURNING id, event_id, subscriber, stream, due_at
), told AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'discarded', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM gone ORDER BY id
)
SELECT id, subscriber, stream FROM gone ORDER BY id
