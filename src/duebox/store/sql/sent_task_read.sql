-- The results of tasks that were sent. A failure is returned once: after that the task is sent again.
UPDATE duebox_sent_task h
SET failure_settled = h.error <> ''
WHERE h.subscriber = %(subscriber)s AND h.event_id = ANY(%(event)s::uuid[]) AND NOT h.failure_settled
RETURNING h.event_id::text, h.ended_at IS NOT NULL, h.error, h.permanent,
          extract(epoch FROM h.expires_at - coalesce(%(now)s::timestamptz, statement_timestamp()))::float8,
          extract(epoch FROM h.ended_at - h.sent_at)::float8
