-- Settle delivered deliveries: delete the rows and write the history. Returns the ids that the lease does not own any
-- more, or NULL if it owned all. The work is done by a function, whose plan the server keeps.
SELECT duebox_settle_delivered(
    %(lease)s, %(id)s::bigint[], %(started)s::bigint[], %(took)s::bigint[], %(now)s::timestamptz
)
