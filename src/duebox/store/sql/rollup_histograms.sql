-- One histogram of one kind and name in steps, as rollup_series reads the counters. Each bucket is summed by its place:
-- unnest makes ten rows of one, and takes five times as long.
SELECT date_bin(%(step)s * interval '1 second', minute, %(since)s),
       ARRAY[
           sum(counts[1]), sum(counts[2]), sum(counts[3]), sum(counts[4]), sum(counts[5]), sum(counts[6]),
           sum(counts[7]), sum(counts[8]), sum(counts[9]), sum(counts[10]), sum(counts[11]), sum(counts[12]),
           sum(counts[13]), sum(counts[14]), sum(counts[15]), sum(counts[16]), sum(counts[17]), sum(counts[18]),
           sum(counts[19]), sum(counts[20]), sum(counts[21]), sum(counts[22]), sum(counts[23]), sum(counts[24])
       ]::bigint[]
FROM (
    SELECT minute, CASE %(histogram)s WHEN 'lateness' THEN lateness WHEN 'wait' THEN wait ELSE duration END AS counts
    FROM duebox_rollup
    WHERE kind = %(kind)s AND name = %(name)s
      AND (span = 1 AND minute >= %(since)s AND minute < %(hours_from)s
           OR span = 60 AND minute >= %(hours_from)s AND minute < %(hours_until)s
           OR span = 1 AND minute >= %(hours_until)s AND minute < %(before)s)
) part
GROUP BY 1
