-- Remove rows that are too old, in batches.
DELETE FROM duebox_rollup
WHERE (span, kind, name, minute) IN (
    SELECT span, kind, name, minute FROM duebox_rollup
    WHERE span = ANY('{1,60}') AND minute < %(before)s
    ORDER BY span, minute LIMIT %(limit)s
)
RETURNING 1
