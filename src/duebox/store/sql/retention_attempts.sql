-- Remove old lines of the history that are not the final outcome of a delivery: failures, retries, rescues. Those of a
-- stored delivery stay. Returns the last id of the page, its size, how many were old, and how many of those are
-- removed.
WITH page AS MATERIALIZED (
    SELECT id, delivery_id, settled_at FROM duebox_attempt
    WHERE id > %(after)s AND outcome NOT IN ('delivered', 'discarded', 'expired')
    ORDER BY id
    LIMIT %(limit)s
), old AS MATERIALIZED (
    SELECT id FROM page
    WHERE settled_at < %(before)s
      AND NOT EXISTS (SELECT FROM duebox_delivery d WHERE d.id = page.delivery_id)
), gone AS (
    DELETE FROM duebox_attempt WHERE id = ANY(ARRAY(SELECT id FROM old)) AND NOT %(dry_run)s RETURNING 1
)
SELECT (SELECT max(id) FROM page), (SELECT count(*) FROM page),
       (SELECT count(*) FROM page WHERE settled_at < %(before)s), (SELECT count(*) FROM old)
FROM (SELECT count(*) FROM gone) removed
