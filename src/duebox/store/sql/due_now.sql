-- Whether anything can be fired or delivered now, and the next moment at which a schedule or a delivery to a handler
-- becomes due. The lower bounds skip rows that were processed in this same transaction: no vacuum can remove them
-- before its end.
SELECT EXISTS (
    SELECT FROM duebox_schedule
    WHERE status = 'scheduled'
      AND due_at >= coalesce(%(schedules_from)s::timestamptz, '-infinity')
      AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
) OR EXISTS (
    SELECT FROM duebox_delivery
    WHERE status = 'pending'
      AND NOT subscriber LIKE 'to:%%'
      AND due_at >= to_timestamp(%(deliveries_from)s::float8)
      AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      AND lease IS NULL
      AND subscriber = ANY(%(subscribers)s)
) OR EXISTS (
    SELECT FROM duebox_delivery
    WHERE status = 'pending'
      AND subscriber LIKE 'to:%%'
      AND due_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
      AND lease IS NULL
), least((
    SELECT min(due_at)
    FROM duebox_schedule
    WHERE status = 'scheduled' AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
), (
    SELECT min(due_at)
    FROM duebox_delivery
    WHERE status = 'pending'
      AND NOT subscriber LIKE 'to:%%'
      AND due_at > coalesce(%(now)s::timestamptz, statement_timestamp())
      AND subscriber = ANY(%(subscribers)s)
))
