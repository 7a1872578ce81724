-- Remove schedules that ended long ago, in the order in which they ended. A schedule that was cancelled with an opt-out
-- stays, and so does one that fired for a year, as an anniversary does, until that year is over: planned again it would
-- fire a second time. Returns the last one that was checked, how many were checked, and how many are removed.
WITH page AS MATERIALIZED (
    SELECT id, updated_at, fired FROM duebox_schedule
    WHERE status IN ('completed', 'cancelled') AND opt_out = '' AND updated_at < %(before)s
      AND (updated_at, id) > (%(after_at)s, %(after)s)
    ORDER BY updated_at, id
    LIMIT %(limit)s
), old AS MATERIALIZED (
    SELECT id FROM page WHERE NOT (fired ~ '^\d{4}$' AND fired >= to_char(%(before)s AT TIME ZONE 'UTC', 'YYYY'))
), held AS MATERIALIZED (
    SELECT id FROM duebox_schedule
    WHERE id = ANY(ARRAY(SELECT id FROM old)) AND NOT %(dry_run)s
      AND status IN ('completed', 'cancelled') AND opt_out = '' AND updated_at < %(before)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM duebox_schedule WHERE id = ANY(ARRAY(SELECT id FROM held)) RETURNING 1
)
SELECT last.updated_at, last.id, (SELECT count(*) FROM page),
       CASE WHEN %(dry_run)s THEN (SELECT count(*) FROM old) ELSE (SELECT count(*) FROM gone) END
FROM (SELECT updated_at, id FROM page ORDER BY updated_at DESC, id DESC LIMIT 1) last
