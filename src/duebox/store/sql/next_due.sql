-- Seconds until the next delivery to a handler that this process could claim is due, and until the next schedule is; nothing where
-- there is none. A schedule that is due already counts as well: below zero.
SELECT (
    SELECT extract(epoch FROM min(due_at) - coalesce(%(now)s::timestamptz, statement_timestamp()))::float8
    FROM duebox_delivery
    WHERE status = 'pending'
      AND NOT subscriber LIKE 'to:%%'
      AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
      AND subscriber = ANY(%(subscribers)s)
), (
    SELECT extract(epoch FROM min(due_at) - coalesce(%(now)s::timestamptz, statement_timestamp()))::float8
    FROM duebox_schedule
    WHERE status = 'scheduled'
)
