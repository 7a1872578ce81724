-- Append-only: vacuumed by the number of inserts.
ALTER TABLE duebox_attempt SET (autovacuum_vacuum_insert_scale_factor = 0.05);
