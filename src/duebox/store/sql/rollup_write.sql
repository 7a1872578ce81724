-- Write rows that differ from the stored ones: a minute is counted twice, and most do not change.
INSERT INTO duebox_rollup AS stored (
    span, kind, name, minute, count, delivered, retried, dead, snoozed, discarded, expired, rescued, repeated,
    lateness_ms, lateness, wait_ms, wait, duration_ms, duration
)
SELECT %(span)s, kind, name, minute, count, delivered, retried, dead, snoozed, discarded, expired, rescued, repeated,
       lateness_ms, lateness::int[], wait_ms, wait::int[], duration_ms, duration::int[]
FROM unnest(
    %(kind)s::text[], %(name)s::text[], %(minute)s::timestamptz[], %(count)s::bigint[], %(delivered)s::int[],
    %(retried)s::int[], %(dead)s::int[], %(snoozed)s::int[], %(discarded)s::int[], %(expired)s::int[],
    %(rescued)s::int[], %(repeated)s::int[], %(lateness_ms)s::float8[], %(lateness)s::text[],
    %(wait_ms)s::float8[], %(wait)s::text[],
    %(duration_ms)s::float8[], %(duration)s::text[]
) AS given (
    kind, name, minute, count, delivered, retried, dead, snoozed, discarded, expired, rescued, repeated,
    lateness_ms, lateness, wait_ms, wait, duration_ms, duration
)
ON CONFLICT (span, kind, name, minute) DO UPDATE
SET (count, delivered, retried, dead, snoozed, discarded, expired, rescued, repeated,
     lateness_ms, lateness, wait_ms, wait, duration_ms, duration)
  = (excluded.count, excluded.delivered, excluded.retried, excluded.dead, excluded.snoozed, excluded.discarded,
     excluded.expired, excluded.rescued, excluded.repeated, excluded.lateness_ms, excluded.lateness,
     excluded.wait_ms, excluded.wait, excluded.duration_ms, excluded.duration)
WHERE (stored.count, stored.delivered, stored.retried, stored.dead, stored.snoozed, stored.discarded, stored.expired,
       stored.rescued, stored.repeated, stored.lateness, stored.wait, stored.duration)
   IS DISTINCT FROM
      (excluded.count, excluded.delivered, excluded.retried, excluded.dead, excluded.snoozed, excluded.discarded,
       excluded.expired, excluded.rescued, excluded.repeated, excluded.lateness, excluded.wait, excluded.duration)
