-- By event type: the number of hours of a period with events, the first and the last, the longest gap between two of
-- them, and the last minute with an event since the last hour that was summed.
WITH seen AS (
    SELECT name, minute, minute - lag(minute) OVER (PARTITION BY name ORDER BY minute) AS pause
    FROM duebox_rollup
    WHERE span = 60 AND minute >= %(since)s AND kind = 'event' AND name NOT IN ('', 'other') AND count > 0
), regular AS (
    SELECT name, count(*) AS hours, min(minute) AS first, max(minute) + interval '1 hour' AS last, max(pause) AS pause
    FROM seen GROUP BY name
)
SELECT name, hours, first, greatest(last, (
           SELECT max(recent.minute) + interval '1 minute' FROM duebox_rollup recent
           WHERE recent.span = 1 AND recent.kind = 'event' AND recent.name = regular.name AND recent.minute >= %(recent)s
       )), pause
FROM regular
ORDER BY name
