-- The sums of one kind by name, with three histograms each. Hours are read where they are given, minutes otherwise.
-- The sum of all names comes first, then the most frequent.
SELECT name, CASE WHEN %(kind)s = 'gauge' THEN max(count) ELSE sum(count) END::bigint,
       sum(delivered)::bigint, sum(retried)::bigint, sum(dead)::bigint,
       sum(snoozed)::bigint, sum(discarded)::bigint, sum(expired)::bigint, sum(rescued)::bigint, sum(repeated)::bigint,
       sum(lateness_ms), sum(wait_ms), sum(duration_ms),
       ARRAY[
           sum(lateness[1]), sum(lateness[2]), sum(lateness[3]), sum(lateness[4]), sum(lateness[5]),
           sum(lateness[6]), sum(lateness[7]), sum(lateness[8]), sum(lateness[9]), sum(lateness[10]),
           sum(lateness[11]), sum(lateness[12]), sum(lateness[13]), sum(lateness[14]), sum(lateness[15]),
           sum(lateness[16]), sum(lateness[17]), sum(lateness[18]), sum(lateness[19]), sum(lateness[20]),
           sum(lateness[21]), sum(lateness[22]), sum(lateness[23]), sum(lateness[24])
       ]::bigint[],
       ARRAY[
           sum(wait[1]), sum(wait[2]), sum(wait[3]), sum(wait[4]), sum(wait[5]), sum(wait[6]), sum(wait[7]),
           sum(wait[8]), sum(wait[9]), sum(wait[10]), sum(wait[11]), sum(wait[12]), sum(wait[13]), sum(wait[14]),
           sum(wait[15]), sum(wait[16]), sum(wait[17]), sum(wait[18]), sum(wait[19]), sum(wait[20]), sum(wait[21]),
           sum(wait[22]), sum(wait[23]), sum(wait[24])
       ]::bigint[],
       ARRAY[
           sum(duration[1]), sum(duration[2]), sum(duration[3]), sum(duration[4]), sum(duration[5]),
           sum(duration[6]), sum(duration[7]), sum(duration[8]), sum(duration[9]), sum(duration[10]),
           sum(duration[11]), sum(duration[12]), sum(duration[13]), sum(duration[14]), sum(duration[15]),
           sum(duration[16]), sum(duration[17]), sum(duration[18]), sum(duration[19]), sum(duration[20]),
           sum(duration[21]), sum(duration[22]), sum(duration[23]), sum(duration[24])
       ]::bigint[]
FROM duebox_rollup
WHERE kind = %(kind)s AND (%(name)s::text IS NULL OR name = %(name)s)
  AND (span = 1 AND minute >= %(since)s AND minute < %(hours_from)s
       OR span = 60 AND minute >= %(hours_from)s AND minute < %(hours_until)s
       OR span = 1 AND minute >= %(hours_until)s AND minute < %(before)s)
GROUP BY name
ORDER BY name <> '', 2 DESC, name
