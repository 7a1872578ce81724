-- Note that a webhook was received; returns nothing where it was received before. While another transaction holds the
-- same one this waits for its end.
INSERT INTO duebox_webhook_receipt (source, webhook_id, received_at)
VALUES (%(source)s, %(webhook_id)s, coalesce(%(now)s::timestamptz, statement_timestamp()))
ON CONFLICT (source, webhook_id) DO NOTHING
RETURNING 1
