-- The lines of the schedule log of some minutes, by what happened; one line may stand for several occurrences.
SELECT date_bin('1 minute', at, 'epoch'), what, sum(occurrences)
FROM duebox_schedule_log
WHERE id >= %(from)s AND id < %(until)s AND at >= %(since)s AND at < %(before)s
GROUP BY 1, 2
