-- Cuts texts at 10,000 characters.
CREATE OR REPLACE FUNCTION duebox_audit_cut(value text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN octet_length(value) <= 10000 OR length(value) <= 10000 THEN value
        ELSE left(value, 10000) || '… (' || to_char(length(value), 'FM999,999,999,999') || ' characters)'
    END
$$;
