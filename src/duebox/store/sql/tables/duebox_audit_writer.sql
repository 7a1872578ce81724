-- A writer is updated with every entry that its session writes; the room on the page keeps those updates off the index.
ALTER TABLE duebox_audit_writer SET (fillfactor = 50);
