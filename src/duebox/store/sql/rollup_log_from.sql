-- As rollup_attempts_from, for the schedule log.
WITH RECURSIVE search AS (
    SELECT coalesce(min(id), 1) AS low, coalesce(max(id), 0) + 1 AS high FROM duebox_schedule_log
    UNION ALL
    SELECT CASE WHEN probe.at < %(moment)s THEN probe.id + 1 ELSE search.low END,
           CASE WHEN probe.at < %(moment)s THEN search.high ELSE (search.low + search.high) / 2 END
    FROM search CROSS JOIN LATERAL (
        SELECT id, at FROM duebox_schedule_log WHERE id >= (search.low + search.high) / 2 ORDER BY id LIMIT 1
    ) probe
    WHERE search.low < search.high
)
SELECT low FROM search WHERE low >= high
