-- Forget what was received long ago, a part at a time. What another has locked to forget it is left to him.
DELETE FROM duebox_webhook_receipt
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_webhook_receipt
    WHERE received_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(days)s * interval '1 day'
    ORDER BY received_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
))
RETURNING 1
