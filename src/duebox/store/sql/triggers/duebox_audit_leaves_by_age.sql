CREATE OR REPLACE TRIGGER duebox_audit_leaves_by_age AFTER DELETE ON duebox_audit
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse_unpruned();
