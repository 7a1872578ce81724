-- Remove the rows of tasks that could not be sent.
DELETE FROM duebox_handover WHERE subscriber = %(subscriber)s AND event_id = ANY(%(event)s::uuid[])
