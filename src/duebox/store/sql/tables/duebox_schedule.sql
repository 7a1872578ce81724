-- A schedule that repeats is updated at each firing; the room on the page keeps the new version near the old one.
ALTER TABLE duebox_schedule SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05
);
