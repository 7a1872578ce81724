CREATE OR REPLACE TRIGGER duebox_audit_head_stays BEFORE DELETE OR TRUNCATE ON duebox_audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse();
