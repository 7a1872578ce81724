-- Removes the triggers of the audit log and of plans from all tables of the project. Without the tables of Duebox they
-- would fail each statement.
DO $$
DECLARE
    each regprocedure;
BEGIN
    FOR each IN
        SELECT p.oid FROM pg_proc p
        WHERE (starts_with(p.proname, 'duebox_capture_') OR starts_with(p.proname, 'duebox_record_'))
          AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('duebox_event'))
    LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', each);
    END LOOP;
END $$;
