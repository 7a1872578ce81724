-- As duebox_audit_writer: each row is updated again and again.
ALTER TABLE duebox_audit_writer_sealed SET (fillfactor = 50);
