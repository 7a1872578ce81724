-- The results of tasks that were sent. A failure is returned once: after that the task is sent again.
UPDATE duebox_handover h
SET told = h.error <> ''
WHERE h.subscriber = %(subscriber)s AND h.event_id = ANY(%(event)s::uuid[]) AND NOT h.told
RETURNING h.event_id::text, h.ended_at IS NOT NULL, h.error, h.permanent,
          extract(epoch FROM h.expires_at - coalesce(%(now)s::timestamptz, statement_timestamp()))::float8,
          extract(epoch FROM h.ended_at - h.handed_at)::float8
