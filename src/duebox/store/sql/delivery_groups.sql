-- Groups of dead letters. The index of dead letters finds the rows, the primary key their events; of the history only
-- the line of one sample per group is read. The id of a group is computed as in duebox.dead_letters.fingerprint. With
-- `newest`, only that many are read.
WITH counted AS (
    SELECT coalesce(event.type, '(gone)') AS type, d.subscriber, coalesce(d.fingerprint, 'unknown') AS fingerprint,
           count(*) AS many, min(d.died_at) AS first_at, max(d.died_at) AS last_at, max(d.id) AS sample
    FROM (
        SELECT * FROM duebox_delivery WHERE status = %(status)s ORDER BY id DESC LIMIT %(newest)s::bigint
    ) d
    -- With a limit, so that each is looked up by its key: the planner may read all events otherwise.
    LEFT JOIN LATERAL (
        SELECT one.type, one.organization FROM duebox_event one WHERE one.id = d.event_id LIMIT 1
    ) event ON true
    WHERE (%(type)s::text IS NULL OR event.type LIKE %(type)s)
      AND (%(subscriber)s::text IS NULL OR d.subscriber = %(subscriber)s
           OR starts_with(d.subscriber, %(subscriber)s || '/'))
      AND (%(organization)s::text IS NULL OR event.organization = %(organization)s)
      AND (%(fingerprint)s::text IS NULL OR d.fingerprint = %(fingerprint)s)
      AND (%(since)s::timestamptz IS NULL OR d.died_at >= %(since)s)
    GROUP BY 1, 2, 3
), named AS (
    SELECT left(encode(sha256(convert_to(type || chr(10) || subscriber || chr(10) || fingerprint, 'UTF8')), 'hex'), 12)
           AS id, *
    FROM counted
), grouped AS MATERIALIZED (
    SELECT * FROM named
    WHERE %(group)s::text IS NULL OR id = %(group)s
    ORDER BY many DESC, sample DESC
    LIMIT %(limit)s
)
SELECT grouped.id, grouped.type, grouped.subscriber, grouped.fingerprint, grouped.many, grouped.first_at,
       grouped.last_at, grouped.sample, coalesce(death.note, ''), death.status
FROM grouped
LEFT JOIN LATERAL (
    SELECT attempt.note, attempt.status
    FROM duebox_delivery d JOIN duebox_attempt attempt ON attempt.event_id = d.event_id AND attempt.delivery_id = d.id
    WHERE d.id = grouped.sample AND attempt.outcome = 'dead'
    ORDER BY attempt.id DESC LIMIT 1
) death ON true
ORDER BY grouped.many DESC, grouped.sample DESC
