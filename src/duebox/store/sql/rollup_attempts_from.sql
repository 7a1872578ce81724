-- The id from which on attempts were settled at this moment or later: bisection by the primary key, because there is no
-- index by time. Ids are given out in the order of time, except for statements that run at the same time.
WITH RECURSIVE search AS (
    SELECT coalesce(min(id), 1) AS low, coalesce(max(id), 0) + 1 AS high FROM duebox_attempt
    UNION ALL
    SELECT CASE WHEN probe.settled_at < %(moment)s THEN probe.id + 1 ELSE search.low END,
           CASE WHEN probe.settled_at < %(moment)s THEN search.high ELSE (search.low + search.high) / 2 END
    FROM search CROSS JOIN LATERAL (
        SELECT id, settled_at FROM duebox_attempt WHERE id >= (search.low + search.high) / 2 ORDER BY id LIMIT 1
    ) probe
    WHERE search.low < search.high
)
SELECT low FROM search WHERE low >= high
