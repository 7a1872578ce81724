-- For tables whose rows are never changed, with one exception: `duebox erase` removes personal data, and retention
-- removes the payload of an old event while its idempotency key must stay.
CREATE OR REPLACE FUNCTION duebox_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('duebox.allows', true) = 'erase' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only; emit a new event instead of changing an old one.', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
