-- Entries are stored in the order of time, so a BRIN index finds a period, and costs almost nothing to write.
CREATE INDEX duebox_audit_between ON duebox_audit USING brin (recorded_at) WITH (autosummarize = on);
