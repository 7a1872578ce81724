-- Store the result of a task. The delivery becomes due, so that a worker settles it now; one that a worker holds at
-- this moment is not changed, because the worker checks again soon.
WITH ended AS (
    UPDATE duebox_sent_task
    SET ended_at = coalesce(%(now)s::timestamptz, statement_timestamp()), error = %(error)s, permanent = %(permanent)s
    WHERE task_id = %(task_id)s AND task = %(task)s AND ended_at IS NULL
    RETURNING subscriber, event_id
), due AS (
    UPDATE duebox_delivery d
    SET due_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    FROM ended
    WHERE d.event_id = ended.event_id AND d.subscriber = ended.subscriber AND d.lease IS NULL AND d.status = 'pending'
      AND d.due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
    RETURNING 1
), woken AS (
    SELECT pg_notify('duebox', '')
    WHERE EXISTS (SELECT FROM due)
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM due), (SELECT count(*) FROM woken)
