CREATE OR REPLACE TRIGGER duebox_audit_seal_is_append_only BEFORE UPDATE OR TRUNCATE ON duebox_audit_seal
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
