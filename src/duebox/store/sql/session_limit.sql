-- For the whole session, unless there is a pooler: then the client has another process id.
SELECT set_config(wanted.name, wanted.ms::text, false)
FROM (
    VALUES ('statement_timeout', %(statement_ms)s::bigint), ('idle_in_transaction_session_timeout', %(idle_ms)s::bigint)
) AS wanted (name, ms)
JOIN pg_settings ON pg_settings.name = wanted.name
WHERE pg_backend_pid() = %(pid)s
  AND (pg_settings.setting::bigint = 0 OR pg_settings.setting::bigint > wanted.ms)
UNION ALL
SELECT set_config('default_transaction_isolation', 'read committed', false) WHERE pg_backend_pid() = %(pid)s
