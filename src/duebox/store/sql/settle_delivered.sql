-- Delivered: out of the hot table, into the history. Gives the ids that the lease does not own any more, or nothing if
-- it owned all. The work is done by a function of migration 0010, whose plan the server keeps.
SELECT duebox_settle_delivered(
    %(lease)s, %(id)s::bigint[], %(started)s::bigint[], %(took)s::bigint[], %(now)s::timestamptz
)
