-- The other numbers of `duebox status`, each counted up to a limit from an index of its own; and the workers, of which
-- there are few. They are counted in the order of that index: otherwise the planner may scan the table if it expects
-- most rows to match, and find them only at its end.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM duebox_delivery WHERE status = 'waiting' ORDER BY subscriber, stream, id LIMIT %(most)s
    ) counted),
    (SELECT count(*) FROM (SELECT FROM duebox_delivery WHERE status = 'dead' ORDER BY id LIMIT %(most)s) counted),
    (SELECT count(*) FROM (SELECT FROM duebox_delivery WHERE status = 'parked' ORDER BY id LIMIT %(most)s) counted),
    ahead.minute,
    ahead.hour,
    ahead.day,
    late.count,
    extract(epoch FROM clock.now - late.first)::float8,
    (SELECT count(*) FROM duebox_worker WHERE expires_at > statement_timestamp()),
    (SELECT count(*) FROM duebox_worker WHERE expires_at > statement_timestamp() AND listening),
    audit.unsealed,
    audit.oldest,
    clock.now
FROM (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) clock
CROSS JOIN LATERAL (
    -- In the order of time: if there are too many to count, those that come first are counted.
    SELECT count(*) FILTER (WHERE due_at <= clock.now + interval '1 minute') AS minute,
           count(*) FILTER (WHERE due_at <= clock.now + interval '1 hour') AS hour, count(*) AS day
    FROM (
        SELECT due_at FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at > clock.now AND due_at <= clock.now + interval '1 day'
        ORDER BY due_at, id LIMIT %(most)s
    ) counted
) ahead
CROSS JOIN LATERAL (
    SELECT count(*), min(due_at) AS first FROM (
        SELECT due_at FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at <= clock.now - %(late)s * interval '1 second'
        ORDER BY due_at, id LIMIT %(most)s
    ) counted
) late
CROSS JOIN (
    -- One row for each session that writes entries. Their entries are numbered without gaps.
    SELECT coalesce(sum(writer.number - coalesce(sealed.number, 0)), 0)::bigint AS unsealed,
           max(extract(epoch FROM statement_timestamp() - least(entry.recorded_at, batch.recorded_at)))::float8 AS oldest
    FROM duebox_audit_writer AS writer
    LEFT JOIN duebox_audit_writer_sealed AS sealed ON sealed.writer = writer.id
    LEFT JOIN LATERAL (
        SELECT one.recorded_at FROM duebox_audit AS one
        WHERE one.writer = writer.id AND one.writer_number > coalesce(sealed.number, 0)
        ORDER BY one.writer_number LIMIT 1
    ) AS entry ON true
    LEFT JOIN LATERAL (
        SELECT min(one.recorded_at) AS recorded_at FROM duebox_audit_batch AS one WHERE one.writer = writer.id
    ) AS batch ON true
    WHERE writer.number > coalesce(sealed.number, 0)
) audit
