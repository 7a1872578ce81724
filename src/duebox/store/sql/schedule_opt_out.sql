-- Cancel schedules with an opt-out, or remove the opt-out if it is empty. A schedule that has ended already keeps its
-- status and only gets the opt-out, so that its plan does not plan it again.
UPDATE duebox_schedule
SET status = CASE WHEN status IN ('scheduled', 'paused') THEN 'cancelled' ELSE status END,
    due_at = NULL,
    occurrence = '',
    local_time = '',
    marks = '',
    opt_out = %(opt_out)s,
    revision = revision + 1,
    updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
WHERE id = ANY(%(id)s::bigint[])
