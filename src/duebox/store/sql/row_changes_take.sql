-- Delete and return some of the changes that no other transaction has locked: the transaction that takes them plans
-- them. Either those of one row each, or those of many; not those of all rows. Those of types that this process does
-- not know are left.
DELETE FROM duebox_row_change
WHERE id = ANY(ARRAY(
    SELECT id FROM duebox_row_change
    WHERE transaction_id >= (SELECT duebox_row_changes_from()) AND (keys IS NOT NULL) = %(many)s AND key <> ''
      AND source = ANY(%(sources)s::text[]) AND id <> ALL(%(busy)s::bigint[])
    ORDER BY transaction_id, id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, source, coalesce(keys, ARRAY[key])
