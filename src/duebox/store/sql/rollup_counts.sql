-- As rollup_totals without the histograms, whose sums take most of its time. Hours are read where they
-- are given, minutes otherwise. The sum of all names comes first, then the most frequent.
SELECT name, CASE WHEN %(kind)s = 'gauge' THEN max(count) ELSE sum(count) END::bigint,
       sum(delivered)::bigint, sum(retried)::bigint, sum(dead)::bigint,
       sum(snoozed)::bigint, sum(discarded)::bigint, sum(expired)::bigint, sum(rescued)::bigint, sum(repeated)::bigint,
       sum(lateness_ms), sum(wait_ms), sum(duration_ms)
FROM duebox_rollup
WHERE kind = %(kind)s AND (%(name)s::text IS NULL OR name = %(name)s)
  AND (span = 1 AND minute >= %(since)s AND minute < %(hours_from)s
       OR span = 60 AND minute >= %(hours_from)s AND minute < %(hours_until)s
       OR span = 1 AND minute >= %(hours_until)s AND minute < %(before)s)
GROUP BY name
ORDER BY name <> '', 2 DESC, name
