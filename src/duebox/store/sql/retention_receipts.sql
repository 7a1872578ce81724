-- Remove old receipts of webhooks. Returns the last id of the page, its size, how many were old, and how many of those
-- are removed: all.
WITH page AS MATERIALIZED (
    SELECT id, received_at FROM duebox_webhook_receipt WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
), old AS MATERIALIZED (
    SELECT id FROM page WHERE received_at < %(before)s
), gone AS (
    DELETE FROM duebox_webhook_receipt WHERE id = ANY(ARRAY(SELECT id FROM old)) AND NOT %(dry_run)s RETURNING 1
)
SELECT (SELECT max(id) FROM page), (SELECT count(*) FROM page), (SELECT count(*) FROM old), (SELECT count(*) FROM old)
FROM (SELECT count(*) FROM gone) removed
