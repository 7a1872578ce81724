-- Changes that are planned.
DELETE FROM duebox_row_change WHERE id = ANY(%(ids)s::bigint[])
