-- The server, and what keeps its vacuum from removing dead rows: the longest transaction of this database, and the oldest
-- snapshot that anything holds, counted in transactions.
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_backend_pid(),
       extract(epoch FROM clock_timestamp())::float8, current_setting('autovacuum') = 'on',
       longest.pid, longest.seconds, longest.application, oldest.held_by, oldest.age
FROM (SELECT) AS one
LEFT JOIN LATERAL (
    SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, application_name AS application
    FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
      AND backend_type = 'client backend'
    ORDER BY xact_start LIMIT 1
) AS longest ON true
LEFT JOIN LATERAL (
    SELECT held_by, age FROM (
        SELECT 'session ' || pid AS held_by, age(backend_xmin) AS age
        FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL
        SELECT 'replication slot ' || slot_name, greatest(age(xmin), age(catalog_xmin))
        FROM pg_replication_slots WHERE coalesce(xmin, catalog_xmin) IS NOT NULL
        UNION ALL
        SELECT 'prepared transaction ' || gid, age(transaction) FROM pg_prepared_xacts
    ) AS holder
    ORDER BY age DESC LIMIT 1
) AS oldest ON true
