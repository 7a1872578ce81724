-- Entries and links leave by age. A batch may go once its entries are in rows of their own.
CREATE OR REPLACE FUNCTION duebox_audit_refuse_unpruned() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pruned bigint := coalesce((SELECT max(pruned_sequence) FROM duebox_audit_head), 0);
    kept boolean;
BEGIN
    IF TG_TABLE_NAME = 'duebox_audit' THEN
        kept := EXISTS (
            SELECT FROM gone LEFT JOIN duebox_audit_seal AS seal ON seal.entry_id = gone.id
            WHERE seal.sequence IS NULL OR seal.sequence > pruned
        );
    ELSIF TG_TABLE_NAME = 'duebox_audit_batch' THEN
        kept := EXISTS (
            SELECT FROM gone CROSS JOIN generate_series(0, cardinality(gone.ids) - 1) AS place
            WHERE NOT EXISTS (
                SELECT FROM duebox_audit AS entry
                WHERE entry.writer = gone.writer AND entry.writer_number = gone.writer_number + place
            )
        );
    ELSE
        kept := EXISTS (SELECT FROM gone WHERE gone.sequence > pruned);
    END IF;
    IF kept THEN
        RAISE EXCEPTION
            '% is append-only, so DELETE is refused; entries leave by age, with: manage.py duebox audit prune.',
            TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
-- Without this a role that may delete could put tables of the same names into its own schema for temporary tables.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION duebox_audit_refuse_unpruned SET search_path = %I, pg_temp', (
        SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('duebox_audit')
    ));
END $$;
