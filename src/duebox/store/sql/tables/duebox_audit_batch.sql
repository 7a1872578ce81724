-- Empty most of the time, and then read with every look at the log: vacuumed soon, and not compressed, since to compress
-- takes longer than to write.
ALTER TABLE duebox_audit_batch
    SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100),
    ALTER COLUMN ids SET STORAGE EXTERNAL,
    ALTER COLUMN organizations SET STORAGE EXTERNAL,
    ALTER COLUMN actions SET STORAGE EXTERNAL,
    ALTER COLUMN entity_types SET STORAGE EXTERNAL,
    ALTER COLUMN entity_ids SET STORAGE EXTERNAL,
    ALTER COLUMN changes SET STORAGE EXTERNAL,
    ADD CONSTRAINT duebox_audit_batch_is_whole CHECK (
        cardinality(organizations) = cardinality(ids) AND cardinality(actions) = cardinality(ids)
        AND cardinality(entity_types) = cardinality(ids) AND cardinality(entity_ids) = cardinality(ids)
        AND cardinality(changes) = cardinality(ids)
    );
