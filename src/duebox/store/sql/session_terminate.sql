-- Another session may have the same process id by now; it is younger than the one to terminate. The CTE must stay
-- MATERIALIZED: pg_terminate_backend() beside the join would be called for every session of the role.
WITH lost AS MATERIALIZED (
    SELECT session.pid
    FROM pg_stat_activity session
    JOIN unnest(%(pids)s::int[], %(ages)s::float8[]) AS closed (pid, age) ON closed.pid = session.pid
    WHERE session.usename = session_user
      AND session.pid <> pg_backend_pid()
      AND session.backend_start <= clock_timestamp() - make_interval(secs => closed.age)
)
SELECT pid FROM (SELECT pid, pg_terminate_backend(pid) AS ended FROM lost) AS each WHERE ended
