-- Those of the given types of which rows have changes that are not planned yet. If there are very many changes, all count
-- as such.
WITH open AS MATERIALIZED (
    SELECT source FROM duebox_row_change WHERE transaction_id >= (SELECT duebox_row_changes_from())
    ORDER BY transaction_id LIMIT 1000
)
SELECT source FROM unnest(%(sources)s::text[]) AS followed (source)
WHERE source IN (SELECT source FROM open) OR (SELECT count(*) FROM open) = 1000
