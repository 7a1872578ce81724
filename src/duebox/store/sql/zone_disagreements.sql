-- The zones for which the database's own copy of the zone database has another UTC offset, in seconds, than expected at
-- one of the instants. An unknown name would be an error, so those are filtered first; without MATERIALIZED the planner
-- may convert before it filters.
WITH probe AS MATERIALIZED (
    SELECT zone, at, seconds
    FROM unnest(%(zone)s::text[], %(at)s::timestamptz[], %(seconds)s::integer[]) AS given (zone, at, seconds)
    WHERE zone IN (SELECT name FROM pg_timezone_names)
)
SELECT DISTINCT zone
FROM probe
WHERE extract(epoch FROM (at AT TIME ZONE zone) - (at AT TIME ZONE 'UTC')) <> seconds
ORDER BY zone
