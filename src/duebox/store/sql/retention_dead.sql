-- The next dead and parked deliveries that died long ago. One that others wait behind in its stream is left out: it
-- blocks them until a person decides. Returns the last id of the page, its size, and the ids that may be removed.
WITH page AS MATERIALIZED (
    SELECT * FROM (
        (SELECT id, subscriber, stream FROM duebox_delivery
         WHERE status = 'dead' AND id > %(after)s AND died_at < %(before)s ORDER BY id LIMIT %(limit)s)
        UNION ALL
        (SELECT id, subscriber, stream FROM duebox_delivery
         WHERE status = 'parked' AND id > %(after)s AND died_at < %(before)s ORDER BY id LIMIT %(limit)s)
    ) AS letters
    ORDER BY id
    LIMIT %(limit)s
)
SELECT max(id), count(*), coalesce(array_agg(id ORDER BY id) FILTER (WHERE stream IS NULL OR NOT EXISTS (
    SELECT FROM duebox_delivery behind
    WHERE behind.subscriber = page.subscriber AND behind.stream = page.stream AND behind.id > page.id
)), '{}')
FROM page
