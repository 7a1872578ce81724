CREATE OR REPLACE TRIGGER duebox_capture_key AFTER UPDATE OF {columns} ON {table}
    FOR EACH ROW WHEN (({old}) IS DISTINCT FROM ({new})) EXECUTE FUNCTION {schema}.{function}();
