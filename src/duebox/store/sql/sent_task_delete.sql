-- Remove the rows of tasks that could not be sent.
DELETE FROM duebox_sent_task WHERE subscriber = %(subscriber)s AND event_id = ANY(%(event)s::uuid[])
