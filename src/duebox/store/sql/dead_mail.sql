-- Whether a mail about dead letters of this cause may be sent: returns a row once in so many seconds. It also removes
-- rows of mails that were sent days ago, because endpoints come and go.
WITH mailed AS (
    INSERT INTO duebox_dead_mail AS last (fingerprint, subscriber, mailed_at)
    VALUES (%(fingerprint)s, %(subscriber)s, coalesce(%(now)s::timestamptz, statement_timestamp()))
    ON CONFLICT (fingerprint, subscriber) DO UPDATE SET mailed_at = excluded.mailed_at
    WHERE last.mailed_at <= excluded.mailed_at - %(seconds)s * interval '1 second'
    RETURNING mailed_at
), old AS (
    DELETE FROM duebox_dead_mail
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM duebox_dead_mail
        WHERE mailed_at < (SELECT mailed_at FROM mailed) - (%(seconds)s * interval '1 second' + interval '1 day')
          AND (fingerprint, subscriber) <> (%(fingerprint)s, %(subscriber)s)
        FOR UPDATE SKIP LOCKED
    ))
)
SELECT 1 FROM mailed
