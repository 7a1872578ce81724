-- A claim is a heap-only update: it needs room on the page. Dead rows must go before the claim has to walk over them, so
-- the table is vacuumed early and at full speed.
ALTER TABLE duebox_delivery SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_limit = 2000, autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.05
);
