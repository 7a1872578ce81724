-- A test may empty its database: Django does that with TRUNCATE, and Duebox sets the option in test runs. `duebox erase`
-- replaces the values of entries; a change without the hash that it writes to duebox_audit_erasure is found by verify.
CREATE OR REPLACE FUNCTION duebox_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' AND current_setting('duebox.audit_allows', true) = 'truncate' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'duebox_audit' AND current_setting('duebox.allows', true) = 'erase' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only, so % is refused; %.', TG_TABLE_NAME, TG_OP, CASE TG_OP
            WHEN 'UPDATE' THEN 'write another entry with duebox.audit() that corrects it'
            WHEN 'DELETE' THEN 'entries leave by age, with: manage.py duebox audit prune'
            ELSE 'if the data is not needed, first run: SET duebox.audit_allows = ''truncate''' END
        USING ERRCODE = 'restrict_violation';
END $$;
