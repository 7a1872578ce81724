WITH noted AS (
            INSERT INTO {schema}.duebox_row_change (source, key, keys)
            SELECT source, keys[1], CASE WHEN cardinality(keys) > 1 THEN keys END
            FROM (
                SELECT array_agg(duebox_key) AS keys
                FROM (SELECT duebox_key, (row_number() OVER () - 1) / 1000 AS part FROM ({changed}) AS one) AS numbered
                GROUP BY part
            ) AS part CROSS JOIN unnest({sources}) AS source
            RETURNING id
        )
        SELECT min(id) INTO first_note FROM noted;
