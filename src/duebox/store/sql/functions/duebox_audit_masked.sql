-- The last four characters of a value of 12 or more.
CREATE OR REPLACE FUNCTION duebox_audit_masked(value text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(value) >= 12 THEN '****' || right(value, 4) WHEN value IS NOT NULL THEN '****' END
$$;
