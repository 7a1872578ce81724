-- As Django's duration_iso_string.
CREATE OR REPLACE FUNCTION duebox_audit_duration(value interval) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN NOT isfinite(value) THEN value::text ELSE
        CASE WHEN extract(epoch FROM value) < 0 THEN '-' ELSE '' END
        || 'P' || div(abs(extract(epoch FROM value)), 86400)::text || 'DT'
        || to_char(make_interval(secs => floor(mod(abs(extract(epoch FROM value)), 86400))::float8), 'HH24"H"MI"M"SS')
        || CASE WHEN mod(abs(extract(epoch FROM value)), 1) > 0
                THEN '.' || lpad((mod(abs(extract(epoch FROM value)), 1) * 1000000)::bigint::text, 6, '0') ELSE '' END
        || 'S'
    END
$$;
