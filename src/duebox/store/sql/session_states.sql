-- The process id of this session; of others, whether they wait for their client (NULL: not known) and since when.
SELECT pg_backend_pid(), other.pid,
       CASE WHEN other.state <> 'disabled' THEN other.state LIKE 'idle%%' END,
       coalesce(extract(epoch FROM other.state_change)::float8, 0)
FROM (VALUES (1)) AS one
LEFT JOIN pg_stat_activity other ON other.pid = ANY(%(pids)s::int[])
