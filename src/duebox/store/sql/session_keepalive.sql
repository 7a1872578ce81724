-- For the whole session, unless there is a pooler: then the client has another process id. A Unix socket needs none.
SELECT set_config(wanted.name, wanted.seconds, false)
FROM (
    VALUES ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')
) AS wanted (name, seconds)
WHERE pg_backend_pid() = %(pid)s AND inet_client_addr() IS NOT NULL
