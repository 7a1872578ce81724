-- Writes an entry into the audit log for each row that a statement has changed. It works with the rights of its owner,
-- since another program that changes the table may have none on the tables of Duebox.
--
-- Values are converted in a block that catches errors: what fails there must not fail the statement, and an error must
-- not show a value. The block is a subtransaction. For a few rows it writes nothing and collects arrays, because a
-- subtransaction that writes needs a transaction id, and after 64 of these in one transaction the whole server gets
-- slower. For many rows it writes the entries itself, as batches that a worker stores in rows of their own: with their
-- indexes, single rows would take twice as long as the statement that they record.
--
-- The server keeps the plans, so none may depend on the number of rows: a full join is never a nested loop.
CREATE OR REPLACE FUNCTION {schema}.{function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
SET plan_cache_mode = force_generic_plan SET jit = off AS $duebox$
#variable_conflict use_column
<<recorded>>
DECLARE
    kinds text[] := {kinds};
    nouns text[] := {nouns};
    types text[];
    actions text[];
    ids text[];
    organizations text[];
    changed jsonb[];
    context jsonb;
    moment timestamptz := clock_timestamp();
    metadata jsonb := jsonb_build_object('database_user', session_user, 'application', current_setting('application_name'));
    failed text;
    is_large boolean := false;
    entries bigint;
    session_writer bigint;
    last_number bigint;
    id_sequence regclass;
    context_organization text := '';
    context_actor jsonb;
    context_impersonator jsonb;
    context_correlation_id text := '';
    context_ip text := '';
    context_user_agent text := '';
BEGIN
    BEGIN
        context := nullif(current_setting('duebox.audit_context', true), '')::jsonb;
        IF jsonb_typeof(context) = 'object' THEN
            context_organization := left(coalesce(context->>'organization', ''), 500);
            context_actor := CASE jsonb_typeof(context->'actor') WHEN 'object' THEN context->'actor' END;
            context_impersonator := CASE jsonb_typeof(context->'impersonator') WHEN 'object' THEN context->'impersonator' END;
            context_correlation_id := left(coalesce(context->>'correlation_id', ''), 500);
            context_ip := left(coalesce(context->>'ip', ''), 500);
            context_user_agent := left(coalesce(context->>'user_agent', ''), 500);
            metadata := CASE WHEN context ? 'causation_id'
                THEN jsonb_build_object('causation_id', context->'causation_id') ELSE '{{}}' END;
        END IF;
        IF TG_OP = 'UPDATE' THEN
            {updated}
        ELSIF TG_OP = 'INSERT' THEN
            {inserted}
        ELSIF TG_OP = 'DELETE' THEN
            {deleted}
        END IF;
        IF is_large THEN
            UPDATE {schema}.duebox_audit_writer AS counter SET number = counter.number + entries
            WHERE counter.id = session_writer;
            RETURN NULL;
        END IF;
    EXCEPTION
        WHEN serialization_failure OR deadlock_detected THEN
            RAISE;  -- the transaction is to be tried again
        WHEN others THEN
            failed := SQLSTATE;
    END;
    IF failed IS NOT NULL THEN
        BEGIN
            IF TG_OP IN ('INSERT', 'UPDATE') THEN
                SELECT array_agg({row_key}) INTO ids FROM new_rows AS one;
            ELSIF TG_OP = 'DELETE' THEN
                SELECT array_agg({row_key}) INTO ids FROM old_rows AS one;
            END IF;
        EXCEPTION WHEN others THEN
            ids := ARRAY['*'];
        END;
        types := CASE WHEN ids IS NOT NULL THEN array_fill(kinds[1], ARRAY[cardinality(ids)]) END;
        actions := array_fill(nouns[1] || CASE TG_OP
            WHEN 'INSERT' THEN '.created' WHEN 'UPDATE' THEN '.updated' ELSE '.deleted' END, ARRAY[coalesce(cardinality(types), 0)]);
        organizations := NULL;
        changed := NULL;
        metadata := metadata || jsonb_build_object('error', failed);
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        IF current_setting('duebox.audit_allows', true) = 'truncate' AND NOT EXISTS (SELECT FROM {schema}.duebox_audit)
           AND NOT EXISTS (SELECT FROM {schema}.duebox_audit_batch) THEN
            RETURN NULL;  -- a test run has emptied all tables, the log with them
        END IF;
        types := kinds;
        ids := array_fill('*'::text, ARRAY[cardinality(kinds)]);
        actions := ARRAY(SELECT noun || '.truncated' FROM unnest(nouns) AS noun);
    END IF;
    entries := cardinality(types);
    IF entries IS NULL THEN
        RETURN NULL;  -- nothing that is recorded has changed
    END IF;
    SELECT numbered.writer, numbered.last INTO session_writer, last_number
    FROM {schema}.duebox_audit_number(entries) AS numbered;
    {insert}
    FROM unnest(types, actions, ids, organizations, changed)
         WITH ORDINALITY AS entry (type, action, id, organization, changes, position);
    RETURN NULL;
END $duebox$;
REVOKE ALL ON FUNCTION {schema}.{function}() FROM PUBLIC;
COMMENT ON FUNCTION {schema}.{function}() IS {comment};
CREATE OR REPLACE TRIGGER duebox_record_insert AFTER INSERT ON {table}
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_record_update AFTER UPDATE ON {table}
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_record_delete AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
CREATE OR REPLACE TRIGGER duebox_record_truncate AFTER TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.{function}();
