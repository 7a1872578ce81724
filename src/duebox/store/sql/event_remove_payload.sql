-- Remove the payload, the metadata and the actor of events, and leave only the type, time, ids and idempotency key.
UPDATE duebox_event
SET data = '{}', actor = NULL,
    metadata = jsonb_build_object('duebox.payload_removed_at', coalesce(%(now)s::timestamptz, statement_timestamp()))
WHERE id = ANY(%(id)s::uuid[])
RETURNING 1
