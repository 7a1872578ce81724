-- This session may empty the tables of the audit log.
SELECT set_config('duebox.audit_allows', 'truncate', false)
