-- Discard deliveries: delete the rows, and add the reason to the history. They are locked by delivery_lock.sql.
WITH gone AS (
    DELETE FROM duebox_delivery
    WHERE id = ANY(%(id)s::bigint[])
    RETURNING id, event_id, subscriber, stream, due_at
), logged AS (
    INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at, settled_at, note)
    SELECT event_id, id, subscriber, 0, 'discarded', due_at, coalesce(%(now)s::timestamptz, statement_timestamp()),
           %(note)s
    FROM gone ORDER BY id
)
SELECT id, subscriber, stream FROM gone ORDER BY id
