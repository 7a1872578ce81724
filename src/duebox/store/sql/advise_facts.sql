-- Statistics of the server about Duebox's tables and sessions: no table is read.
SELECT
    coalesce((SELECT json_agg(json_build_object(
        'table', relname, 'live', n_live_tup, 'dead', n_dead_tup, 'vacuumed', greatest(last_vacuum, last_autovacuum)
    ) ORDER BY relname) FROM pg_stat_user_tables
      WHERE relid = ANY(ARRAY[to_regclass('duebox_delivery'), to_regclass('duebox_event'), to_regclass('duebox_attempt'),
                              to_regclass('duebox_schedule')]::oid[])), '[]'),
    (SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('duebox_schedule_fire_due')),
    oldest.seconds, oldest.pid, oldest.application_name,
    pg_notification_queue_usage()
FROM (SELECT 1) one
LEFT JOIN (
    SELECT extract(epoch FROM statement_timestamp() - xact_start)::float8 AS seconds, pid, application_name
    FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
      AND backend_type = 'client backend' AND datname = current_database()
    ORDER BY xact_start LIMIT 1
) oldest ON true
