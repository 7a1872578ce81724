-- Notes the keys of the rows that a statement has changed: one note for the statement, or one for each 1,000 of its rows.
-- It works with the rights of its owner, since another program that changes the table may have none on the tables of
-- Duebox.
--
-- The server keeps the plans of these statements, so none of them may depend on the number of rows. The lookup of
-- schedules by many keys is planned each time.
CREATE OR REPLACE FUNCTION {schema}.{function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    first_two text[];
    first_note bigint;
    is_soon boolean := false;
BEGIN
    BEGIN
        IF TG_LEVEL = 'ROW' THEN
            first_two := ARRAY[{old_key}];
        ELSIF TG_OP <> 'TRUNCATE' THEN
            SELECT array_agg({key}) INTO first_two FROM (SELECT {read} FROM changed_rows LIMIT 2) AS few;
        ELSIF EXISTS (SELECT FROM {schema}.duebox_schedule) THEN
            first_two := ARRAY[''];
        END IF;
    EXCEPTION WHEN undefined_column THEN
        -- A column was renamed, and the triggers are renewed when migrate ends. Until then all rows count as changed.
        first_two := ARRAY[''];
    END;
    IF first_two IS NULL THEN
        RETURN NULL;  -- no row was changed, or the schedules were truncated together with the table, as between two tests
    END IF;
    IF {compares} AND TG_OP = 'UPDATE' AND first_two[1] <> '' THEN
        {note_compared}
        SELECT due_at < clock_timestamp() + interval '1 minute' INTO is_soon
        FROM {schema}.duebox_schedule WHERE status = 'scheduled' ORDER BY due_at, id LIMIT 1;
    ELSIF cardinality(first_two) = 1 THEN
        INSERT INTO {schema}.duebox_row_change (source, key)
        SELECT source, first_two[1] FROM unnest({sources}) AS source RETURNING id INTO first_note;
        is_soon := TG_OP IN ('UPDATE', 'DELETE') AND EXISTS (
            SELECT FROM {schema}.duebox_schedule
            WHERE aggregate_type = ANY({sources}) AND aggregate_type <> '' AND aggregate_id = first_two[1]
              AND status = 'scheduled' AND due_at < clock_timestamp() + interval '1 minute'
        );
    ELSE
        {note_changed}
        IF TG_OP IN ('UPDATE', 'DELETE') THEN
            SELECT due_at < clock_timestamp() + interval '1 minute' INTO is_soon
            FROM {schema}.duebox_schedule WHERE status = 'scheduled' ORDER BY due_at, id LIMIT 1;
        END IF;
    END IF;
    IF first_note IS NULL THEN
        RETURN NULL;
    END IF;
    IF is_soon THEN
        -- Schedules of these rows that come due within a minute are locked until the transaction ends. A worker that is
        -- about to fire one passes it over, and one that has begun is waited for. So a reminder fires before the change
        -- is committed, or it is planned by the change first.
        BEGIN
            EXECUTE 'SELECT FROM {schema}.duebox_schedule '
                'WHERE aggregate_type = ANY($1) AND aggregate_type <> '''' AND aggregate_id IN ('
                'SELECT unnest(coalesce(keys, ARRAY[key])) FROM {schema}.duebox_row_change '
                'WHERE id >= $2 AND transaction_id = pg_current_xact_id()) '
                'AND status = ''scheduled'' AND due_at < clock_timestamp() + interval ''1 minute'' '
                'ORDER BY key FOR UPDATE'
            USING {sources}, first_note;
        EXCEPTION WHEN serialization_failure THEN
            NULL;  -- under REPEATABLE READ, one that has fired since the transaction began
        END;
    END IF;
    -- A save through Django plans its row at once. Otherwise a worker is woken, unless the transaction may be one that
    -- will be prepared, because such a transaction cannot send a NOTIFY. Workers look each second in any case.
    IF right(current_query(), {planned_length}) <> {planned} AND current_setting('max_prepared_transactions')::int = 0
       AND EXISTS (SELECT FROM {schema}.duebox_worker WHERE listening AND expires_at > statement_timestamp()) THEN
        PERFORM pg_notify('duebox', 'changes');
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER duebox_capture_insert AFTER INSERT ON {table}
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_update AFTER UPDATE ON {table}
    REFERENCING {old_rows}NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_delete AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_capture_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
{key_trigger}
REVOKE ALL ON FUNCTION {schema}.{function}() FROM PUBLIC;
COMMENT ON FUNCTION {schema}.{function}() IS {comment};
