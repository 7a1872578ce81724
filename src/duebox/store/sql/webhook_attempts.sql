-- The last attempts for an endpoint, the newest first. The slash is what the index is limited to.
SELECT attempt.event_id::text, coalesce(event.type, ''), attempt.number, attempt.outcome, attempt.status, attempt.took_ms,
       to_char(attempt.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), attempt.note
FROM duebox_attempt attempt LEFT JOIN duebox_event event ON event.id = attempt.event_id
WHERE attempt.subscriber = %(name)s AND attempt.subscriber LIKE '%%/%%'
ORDER BY attempt.id DESC
LIMIT %(limit)s
