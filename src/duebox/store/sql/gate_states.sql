-- Every destination that something waits for, or of which there is something to say. The table also holds the tokens of
-- handlers with a rate, which are none.
SELECT coalesce(gate.name, counted.subscriber), coalesce(counted.waiting, 0), coalesce(counted.dead, 0),
       gate.paused_at, coalesce(gate.paused_note, ''), gate.open_until, gate.failing_since, coalesce(gate.error, '')
FROM (
    SELECT subscriber, count(*) FILTER (WHERE status IN ('pending', 'waiting')) AS waiting,
           count(*) FILTER (WHERE status = 'dead') AS dead
    FROM duebox_delivery WHERE subscriber LIKE 'to:%%'
    GROUP BY subscriber
) counted
FULL JOIN (SELECT * FROM duebox_destination_state WHERE name LIKE 'to:%%') gate ON gate.name = counted.subscriber
ORDER BY 1
