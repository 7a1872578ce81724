-- Rows that were changed, or follow one that was.
INSERT INTO duebox_row_change (source, key, keys)
SELECT %(source)s, (%(keys)s::text[])[1], CASE WHEN cardinality(%(keys)s::text[]) > 1 THEN %(keys)s::text[] END
