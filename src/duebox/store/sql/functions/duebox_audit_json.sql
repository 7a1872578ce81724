-- JSON unchanged, or as a truncated text.
CREATE OR REPLACE FUNCTION duebox_audit_json(value text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN octet_length(value) <= 10000 OR length(value) <= 10000 THEN value
        ELSE to_json(left(value, 10000) || '… (' || to_char(length(value), 'FM999,999,999,999') || ' characters)')::text
    END
$$;
