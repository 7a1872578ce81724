-- Changes of all rows of a type.
SELECT id, source, ARRAY[key] FROM duebox_row_change
WHERE source = ANY(%(sources)s::text[]) AND key = '' AND keys IS NULL
