-- Disable an endpoint; returns no row if it was disabled before.
UPDATE duebox_webhook_endpoint
SET disabled_at = coalesce(%(now)s::timestamptz, statement_timestamp()), disabled_reason = %(reason)s
WHERE id = %(id)s AND disabled_at IS NULL
RETURNING organization, url
