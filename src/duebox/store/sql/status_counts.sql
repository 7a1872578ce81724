-- The other numbers of `duebox status`, each counted up to a limit from an index of its own; and the workers, of which
-- there are few.
SELECT
    (SELECT count(*) FROM (SELECT FROM duebox_delivery WHERE status = 'waiting' LIMIT %(most)s) counted),
    (SELECT count(*) FROM (SELECT FROM duebox_delivery WHERE status = 'dead' LIMIT %(most)s) counted),
    (SELECT count(*) FROM (SELECT FROM duebox_delivery WHERE status = 'parked' LIMIT %(most)s) counted),
    (SELECT count(*) FROM (
        SELECT FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at > clock.now AND due_at <= clock.now + interval '1 minute'
        LIMIT %(most)s
    ) counted),
    (SELECT count(*) FROM (
        SELECT FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at > clock.now AND due_at <= clock.now + interval '1 hour'
        LIMIT %(most)s
    ) counted),
    (SELECT count(*) FROM (
        SELECT FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at > clock.now AND due_at <= clock.now + interval '1 day'
        LIMIT %(most)s
    ) counted),
    (SELECT count(*) FROM (
        SELECT FROM duebox_schedule
        WHERE status = 'scheduled' AND due_at <= clock.now - %(late)s * interval '1 second'
        LIMIT %(most)s
    ) counted),
    (SELECT extract(epoch FROM clock.now - min(due_at))::float8 FROM duebox_schedule
     WHERE status = 'scheduled' AND due_at <= clock.now - %(late)s * interval '1 second'),
    (SELECT count(*) FROM duebox_worker WHERE expires_at > statement_timestamp()),
    (SELECT count(*) FROM duebox_worker WHERE expires_at > statement_timestamp() AND listening),
    clock.now
FROM (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) clock
