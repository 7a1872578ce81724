-- Each heartbeat is an update, and the table is read with each emit.
ALTER TABLE duebox_worker SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100
);
