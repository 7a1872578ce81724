-- The first head, of a chain without entries.
INSERT INTO duebox_audit_head (id) VALUES (1) ON CONFLICT (id) DO NOTHING
