-- Deliveries of stored events to their subscribers, in one round trip; a sleeping worker is woken.
WITH routed AS (
    INSERT INTO duebox_delivery (event_id, subscriber, stream, due_at)
    SELECT route.event_id, route.subscriber, route.stream, coalesce(%(now)s::timestamptz, statement_timestamp())
    FROM unnest(%(route_event)s::uuid[], %(route_subscriber)s::text[], %(route_stream)s::text[])
         WITH ORDINALITY AS route (event_id, subscriber, stream, position)
    ORDER BY route.position
    RETURNING 1
), woken AS (
    -- NOTIFY in every commit halves concurrent inserts, so it is sent only while a worker sleeps by it.
    SELECT pg_notify('duebox', '')
    WHERE EXISTS (SELECT FROM routed)
      AND EXISTS (SELECT FROM duebox_worker WHERE listening AND expires_at > statement_timestamp())
)
SELECT (SELECT count(*) FROM routed), (SELECT count(*) FROM woken)
