-- Replace the old and new values of entries, and their metadata except for the keys of Duebox itself. Which fields were
-- changed, by whom and when, stays.
UPDATE duebox_audit
SET changes = coalesce((
        SELECT jsonb_object_agg(field.name, CASE WHEN jsonb_typeof(field.pair) = 'array' THEN (
            SELECT jsonb_agg(CASE WHEN value = 'null' THEN value ELSE '"(erased)"' END ORDER BY position)
            FROM jsonb_array_elements(field.pair) WITH ORDINALITY AS pair (value, position)
        ) ELSE '"(erased)"' END)
        FROM jsonb_each(CASE WHEN jsonb_typeof(changes) = 'object' THEN changes ELSE '{}' END) AS field (name, pair)
    ), '{}'),
    metadata = coalesce((
        SELECT jsonb_object_agg(field.name, CASE
            WHEN field.name IN ('causation_id', 'database_user', 'application', 'error') THEN field.value
            ELSE '"(erased)"' END)
        FROM jsonb_each(CASE WHEN jsonb_typeof(metadata) = 'object' THEN metadata ELSE '{}' END) AS field (name, value)
    ), '{}')
WHERE id = ANY(%(id)s::bigint[])
