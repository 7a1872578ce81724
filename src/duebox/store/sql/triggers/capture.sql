-- Notes the keys of the rows that a statement has changed: one row for the statement, or one for each 1,000 of its rows.
-- It works with the rights of its owner, since another program that changes the table may have none on the tables of
-- Duebox.
--
-- The server keeps the plans of these statements, so none of them may depend on the number of rows: sets are compared,
-- not joined, and the next schedule is found by its index. The lookup of schedules by their keys is planned each time.
CREATE OR REPLACE FUNCTION {schema}.{function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    changed text[];
    next_due timestamptz;
BEGIN
    BEGIN
        IF TG_OP = 'INSERT' THEN
            SELECT array_agg({key}::text) INTO changed FROM new_rows;
        ELSIF TG_OP = 'UPDATE' THEN
            SELECT array_agg(duebox_key) INTO changed FROM ({changed}) AS changed_row;
        ELSIF TG_OP = 'DELETE' THEN
            SELECT array_agg({key}::text) INTO changed FROM old_rows;
        ELSE
            changed := ARRAY[''];
        END IF;
    EXCEPTION WHEN undefined_column THEN
        -- A column was renamed, and the triggers are renewed when migrate ends. Until then all rows count as changed.
        changed := ARRAY[''];
    END;
    IF changed IS NULL THEN
        RETURN NULL;
    END IF;
    IF cardinality(changed) = 1 THEN
        INSERT INTO {schema}.duebox_row_change (source, key)
        SELECT source, changed[1] FROM unnest({sources}) AS source;
    ELSE
        INSERT INTO {schema}.duebox_row_change (source, key, keys)
        SELECT source, min(part.key), array_agg(part.key)
        FROM (SELECT key, (place - 1) / 1000 AS number FROM unnest(changed) WITH ORDINALITY AS one (key, place)) AS part
        CROSS JOIN unnest({sources}) AS source
        GROUP BY source, part.number;
    END IF;
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        SELECT due_at INTO next_due FROM {schema}.duebox_schedule WHERE status = 'scheduled' ORDER BY due_at, id LIMIT 1;
    END IF;
    IF next_due < clock_timestamp() + interval '1 minute' THEN
        -- Schedules of these rows that come due within a minute are locked until the transaction ends. A worker that is
        -- about to fire one passes it over, and one that has begun is waited for. So a reminder fires before the change
        -- is committed, or it is planned by the change first.
        BEGIN
            EXECUTE 'SELECT FROM {schema}.duebox_schedule '
                'WHERE aggregate_type = ANY($1) AND aggregate_type <> '''' AND aggregate_id = ANY($2) '
                'AND status = ''scheduled'' AND due_at < clock_timestamp() + interval ''1 minute'' '
                'ORDER BY key FOR UPDATE'
            USING {sources}, changed;
        EXCEPTION WHEN serialization_failure THEN
            NULL;  -- under REPEATABLE READ, one that has fired since the transaction began
        END;
    END IF;
    -- A transaction that sends a NOTIFY cannot be prepared; where there may be such, workers look each second.
    IF current_setting('max_prepared_transactions')::int = 0 AND EXISTS (SELECT FROM {schema}.duebox_worker WHERE listening AND expires_at > statement_timestamp()) THEN
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
