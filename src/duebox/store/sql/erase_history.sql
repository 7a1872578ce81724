-- Remove the texts of the history of events, and the results of tasks. Returns how many lines of the history had a
-- text.
WITH results AS (
    DELETE FROM duebox_task WHERE event_id = ANY(%(id)s::uuid[])
), sent_tasks AS (
    DELETE FROM duebox_sent_task WHERE event_id = ANY(%(id)s::uuid[])
), lines AS (
    UPDATE duebox_attempt SET note = '' WHERE event_id = ANY(%(id)s::uuid[]) AND note <> '' RETURNING 1
)
SELECT count(*) FROM lines
