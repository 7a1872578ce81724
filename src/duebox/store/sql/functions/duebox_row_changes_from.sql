-- Notes are deleted within milliseconds, but while a transaction with an old snapshot is open, no vacuum can remove
-- them, and each scan would read all of them. So a session remembers the first transaction that may have notes: earlier
-- transactions have ended, and their notes are deleted. It is a setting of the session, since after a failover the
-- server may count transactions from an earlier number.
CREATE OR REPLACE FUNCTION duebox_row_changes_from() RETURNS xid8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    -- With a schema for each tenant, a session may use several tables of this name.
    setting text := 'duebox.row_changes_from_' || to_regclass('duebox_row_change')::oid;
    known xid8 := coalesce(nullif(current_setting(setting, true), ''), '0')::xid8;
    oldest_open xid8 := pg_snapshot_xmin(pg_current_snapshot());
    first xid8;
BEGIN
    SELECT transaction_id INTO first FROM duebox_row_change
    WHERE transaction_id >= known ORDER BY transaction_id LIMIT 1;
    first := least(first, oldest_open);
    IF first > known THEN
        PERFORM set_config(setting, first::text, false);
    END IF;
    RETURN first;
END $$;
