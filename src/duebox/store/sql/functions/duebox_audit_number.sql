-- Numbers for some entries of this session: the last number, and the writer that they belong to. The counter is
-- increased in the transaction of the entries, so a rollback undoes both, and there are no gaps. Each session has its
-- own counter, so sessions do not wait for each other: two with the same process id never run at the same time. A
-- counter that a prepared transaction holds is skipped. It is found by the index: under SERIALIZABLE, a transaction
-- that had read the whole table would conflict with every other one that writes an entry.
CREATE OR REPLACE FUNCTION duebox_audit_number(count bigint, OUT writer bigint, OUT last bigint) LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
    UPDATE duebox_audit_writer AS counter SET number = counter.number + count
    WHERE counter.id = (
        SELECT own.id FROM duebox_audit_writer AS own
        WHERE own.process_id = pg_backend_pid()
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
    RETURNING counter.id, counter.number INTO writer, last;
    IF NOT FOUND THEN
        INSERT INTO duebox_audit_writer (process_id, number) VALUES (pg_backend_pid(), count)
        RETURNING id, number INTO writer, last;
    END IF;
END $$;
-- Triggers call it with the rights of their owner and without this schema in their search_path: another role might have
-- created a function there that replaces a built-in one.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION duebox_audit_number SET search_path = %I, pg_temp', (
        SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = to_regclass('duebox_audit_writer')
    ));
END $$;
