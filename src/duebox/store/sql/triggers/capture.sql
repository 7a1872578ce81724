-- Notes the keys of the rows that a statement has changed: one insert for the statement, not for each row. It works
-- with the rights of its owner, since another service that changes the table may have none on the tables of Duebox.
-- Schedules of these rows that come due within a minute are locked until the transaction ends: a worker that is about
-- to fire one passes it over, and one that has begun is waited for. So a reminder fires before the change or by it.
CREATE OR REPLACE FUNCTION {schema}.{function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    noted boolean;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {schema}.duebox_row_change (source, key)
        SELECT source, new_row.{key}::text FROM new_rows new_row CROSS JOIN unnest({sources}) AS source;
        noted := FOUND;
    ELSIF TG_OP = 'UPDATE' THEN
        WITH noted AS (
            INSERT INTO {schema}.duebox_row_change (source, key)
            SELECT source, changed.key
            FROM (
                SELECT new_row.{key}::text AS key
                FROM new_rows new_row LEFT JOIN old_rows old_row ON old_row.{key} = new_row.{key}
                WHERE old_row.{key} IS NULL OR {differs}
                UNION ALL
                SELECT old_row.{key}::text
                FROM old_rows old_row LEFT JOIN new_rows new_row ON new_row.{key} = old_row.{key}
                WHERE new_row.{key} IS NULL
            ) AS changed CROSS JOIN unnest({sources}) AS source
            RETURNING source, key
        ), held AS MATERIALIZED (
            SELECT s.id FROM noted JOIN {schema}.duebox_schedule s
            ON s.aggregate_type = noted.source AND s.aggregate_id = noted.key
            WHERE s.aggregate_type <> '' AND s.status = 'scheduled'
              AND s.due_at < clock_timestamp() + interval '1 minute'
            FOR UPDATE OF s
        )
        SELECT count(*) >= 0 AND EXISTS (SELECT FROM noted) INTO noted FROM held;
    ELSIF TG_OP = 'DELETE' THEN
        WITH noted AS (
            INSERT INTO {schema}.duebox_row_change (source, key)
            SELECT source, old_row.{key}::text FROM old_rows old_row CROSS JOIN unnest({sources}) AS source
            RETURNING source, key
        ), held AS MATERIALIZED (
            SELECT s.id FROM noted JOIN {schema}.duebox_schedule s
            ON s.aggregate_type = noted.source AND s.aggregate_id = noted.key
            WHERE s.aggregate_type <> '' AND s.status = 'scheduled'
              AND s.due_at < clock_timestamp() + interval '1 minute'
            FOR UPDATE OF s
        )
        SELECT count(*) >= 0 AND EXISTS (SELECT FROM noted) INTO noted FROM held;
    ELSE
        INSERT INTO {schema}.duebox_row_change (source, key) SELECT source, '' FROM unnest({sources}) AS source;
        noted := true;
    END IF;
    IF noted AND EXISTS (
        SELECT FROM {schema}.duebox_worker WHERE listening AND expires_at > statement_timestamp()
    ) THEN
        PERFORM pg_notify('duebox', 'changes');
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER duebox_capture_insert AFTER INSERT ON {table}
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_update AFTER UPDATE ON {table}
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_delete AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
COMMENT ON FUNCTION {schema}.{function}() IS {comment};
