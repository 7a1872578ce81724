-- Tasks that are about to be sent, or sent again: the row must exist before the task can report its result.
INSERT INTO duebox_sent_task (subscriber, event_id, task_id, task, sent_at, expires_at)
SELECT %(subscriber)s, given.event_id, given.task_id, given.task, moment.now,
       moment.now + %(seconds)s * interval '1 second'
FROM unnest(%(event)s::uuid[], %(task_id)s::text[], %(task)s::text[]) AS given (event_id, task_id, task),
     (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) AS moment
ORDER BY given.event_id -- so that two workers do not deadlock
ON CONFLICT (subscriber, event_id) DO UPDATE
SET task_id = EXCLUDED.task_id, task = EXCLUDED.task, sent_at = EXCLUDED.sent_at,
    expires_at = EXCLUDED.expires_at, ended_at = NULL, error = '', permanent = false, failure_settled = false
