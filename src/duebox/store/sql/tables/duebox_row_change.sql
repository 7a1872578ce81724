-- Rows live for milliseconds: without frequent vacuuming the table would consist of dead ones.
ALTER TABLE duebox_row_change SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_limit = 2000,
    autovacuum_vacuum_cost_delay = 1
);
-- Used by duebox_row_changes_from and by the triggers.
ALTER TABLE duebox_row_change ADD COLUMN transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id();
