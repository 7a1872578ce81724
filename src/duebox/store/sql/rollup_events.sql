-- The events of some minutes by type, and how late those were that a schedule fired. The minute is that of the id, which
-- begins with the time at which it was made. The moment at which a schedule was due is read so that no text can make it
-- fail: the first of its month, and days.
SELECT to_timestamp(minute * 60), type, bucket, count(*), sum(late)
FROM (
    SELECT ('x' || left(id::text, 8) || substr(id::text, 10, 4))::bit(48)::bigint / 60000 AS minute, type, late,
           width_bucket(late, %(bounds)s::float8[]) AS bucket
    FROM duebox_event
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN NOT metadata ? 'schedule' OR type LIKE 'public.%%' THEN NULL
            WHEN metadata -> 'schedule' ->> 'due'
            ~ '^[12]\d{3}-(0[1-9]|1[0-2])-[0-3]\d[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?[+-](0\d|1[0-4]):[0-5]\d$'
            THEN greatest(0, 1000 * extract(epoch FROM recorded_at - (
                overlay(metadata -> 'schedule' ->> 'due' PLACING '01' FROM 9 FOR 2)::timestamptz
                + (substr(metadata -> 'schedule' ->> 'due', 9, 2)::int - 1) * interval '24 hours'
            ))::float8)
        END AS late
    ) schedule
    WHERE id >= %(from)s::uuid AND id < %(until)s::uuid
) counted
GROUP BY 1, 2, 3
