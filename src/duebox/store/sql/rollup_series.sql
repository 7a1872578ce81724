-- The counters of one kind and name in steps. Hours are read where they are given, minutes otherwise. A gauge has its
-- highest reading.
SELECT date_bin(%(step)s * interval '1 second', minute, %(since)s),
       CASE WHEN %(kind)s = 'gauge' THEN max(count) ELSE sum(count) END::bigint, sum(delivered)::bigint,
       sum(retried)::bigint, sum(dead)::bigint, sum(snoozed)::bigint, sum(discarded)::bigint, sum(expired)::bigint,
       sum(rescued)::bigint, sum(repeated)::bigint, sum(lateness_ms), sum(wait_ms), sum(duration_ms)
FROM duebox_rollup
WHERE kind = %(kind)s AND name = %(name)s
  AND (span = 1 AND minute >= %(since)s AND minute < %(hours_from)s
       OR span = 60 AND minute >= %(hours_from)s AND minute < %(hours_until)s
       OR span = 1 AND minute >= %(hours_until)s AND minute < %(before)s)
GROUP BY 1
