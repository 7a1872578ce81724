-- A keyed hash (HMAC-SHA-256), with the two pads that are derived from the key.
CREATE OR REPLACE FUNCTION duebox_audit_keyed(name text, value text, inner_pad bytea, outer_pad bytea) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NOT NULL THEN 'hmac:' || coalesce(encode(substring(
        sha256(outer_pad || sha256(inner_pad || convert_to(name || ':' || value, 'UTF8'))) FROM 1 FOR 16
    ), 'hex'), ' no key') END
$$;
