CREATE OR REPLACE TRIGGER duebox_audit_batch_is_append_only BEFORE UPDATE OR TRUNCATE ON duebox_audit_batch
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
