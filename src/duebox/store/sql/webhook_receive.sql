-- Record that a webhook was received; returns no row if it was received before. It waits while another transaction
-- records the same one.
INSERT INTO duebox_webhook_receipt (source, webhook_id, received_at)
VALUES (%(source)s, %(webhook_id)s, coalesce(%(now)s::timestamptz, statement_timestamp()))
ON CONFLICT (source, webhook_id) DO NOTHING
RETURNING 1
