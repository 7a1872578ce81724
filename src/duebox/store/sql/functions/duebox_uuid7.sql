-- A UUID of version 7. PostgreSQL has uuidv7() since version 18 only. As in `duebox.events.identities`: 48 bits of
-- milliseconds, 12 bits of the fraction of one, and 62 random bits.
CREATE OR REPLACE FUNCTION duebox_uuid7() RETURNS uuid LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    micros bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    fraction int := (micros % 1000) * 4096 / 1000;
    bytes bytea := uuid_send(gen_random_uuid());
BEGIN
    bytes := overlay(bytes PLACING substring(int8send(micros / 1000) FROM 3) FROM 1 FOR 6);
    bytes := set_byte(set_byte(bytes, 6, 112 | (fraction >> 8)), 7, fraction & 255);
    RETURN encode(bytes, 'hex')::uuid;
END $$;
