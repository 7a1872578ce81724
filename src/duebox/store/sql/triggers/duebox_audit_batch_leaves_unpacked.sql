CREATE OR REPLACE TRIGGER duebox_audit_batch_leaves_unpacked AFTER DELETE ON duebox_audit_batch
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION duebox_audit_refuse_unpruned();
