CREATE OR REPLACE TRIGGER duebox_audit_is_append_only BEFORE UPDATE OR TRUNCATE ON duebox_audit
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
