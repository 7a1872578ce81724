-- Remove workers whose heartbeat stopped. One that is claiming at this very moment is skipped until the next time.
DELETE FROM duebox_worker
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_worker WHERE expires_at <= statement_timestamp() FOR UPDATE SKIP LOCKED
))
RETURNING id, name, coalesce(suspect, 0)
