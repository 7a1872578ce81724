-- One change of many rows becomes one for each row, unless another transaction has locked it.
WITH gone AS (
    DELETE FROM duebox_row_change
    WHERE id = ANY(ARRAY(SELECT id FROM duebox_row_change WHERE id = %(id)s FOR UPDATE SKIP LOCKED))
    RETURNING source, keys
)
INSERT INTO duebox_row_change (source, key) SELECT source, unnest(keys) FROM gone
