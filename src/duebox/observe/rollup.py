"""What happened per minute: roll it up, and read it for charts, SLOs and advice.

Workers count the events and attempts of each minute once it has ended, in rows by event type, handler and destination.
Every reader reads these rows, so that a chart costs the same with ten events and with ten million.

Each minute is counted twice: 5 seconds after its end, and again when 15 minutes have passed. It is counted whole and
its rows are replaced, so nothing is counted double, and what was committed late is found the second time. An event or
attempt whose transaction takes longer than 15 minutes to commit is not counted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from django.db import transaction

from duebox.conf import conf
from duebox.exceptions import InvalidAction
from duebox.observe.status import status
from duebox.store import rollup as store
from duebox.store.rollup import ALL, BOUNDS_MS, HISTOGRAMS, OTHER, Counts, Range, Sums
from duebox.store.run_sql import database_time

__all__ = [
    "ALL", "BOUNDS_MS", "KEEP", "METRICS", "OTHER", "Histogram", "Point", "Total", "counted_until", "percentile",
    "roll_up", "series", "totals",
]  # fmt: skip

logger = logging.getLogger("duebox.worker")

KEEP = timedelta(days=30)
AFTER = timedelta(seconds=5)
"""The time from the end of a minute until it is counted: attempts are committed a moment after they are settled."""
AGAIN_AFTER = timedelta(minutes=15)
MOST_MINUTES = 10
"""Minutes that one transaction counts; more after a time without workers."""
SECOND_PASS_BATCH = timedelta(minutes=5)
"""The second count waits until this many minutes are ready."""
PRUNE_LIMIT = 5_000
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_ZERO = Sums(0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Metric:
    kind: str
    """Of the rows: `event`, `subscriber`, `schedule`, `schedule_log` or `gauge`."""
    column: str
    name: str = ALL
    """Of the row, where the metric is always about the same one."""

    @property
    def is_histogram(self) -> bool:
        return self.column in HISTOGRAMS


METRICS: dict[str, Metric] = {
    "emitted": Metric("event", "count"),
    "attempts": Metric("subscriber", "count"),
    "delivered": Metric("subscriber", "delivered"),
    "retried": Metric("subscriber", "retried"),
    "dead": Metric("subscriber", "dead"),
    "snoozed": Metric("subscriber", "snoozed"),
    "discarded": Metric("subscriber", "discarded"),
    "expired": Metric("subscriber", "expired"),
    "rescued": Metric("subscriber", "rescued"),
    "repeated": Metric("subscriber", "repeated"),
    "lateness": Metric("subscriber", "lateness"),
    "commit_to_start": Metric("subscriber", "wait"),
    "duration": Metric("subscriber", "duration"),
    "fired": Metric("schedule", "count"),
    "schedule_lateness": Metric("schedule", "lateness"),
    "missed": Metric("schedule_log", "count", "missed"),
    "skipped": Metric("schedule_log", "count", "skipped"),
    "due_now": Metric("gauge", "count", "due"),
    "oldest_due_ms": Metric("gauge", "count", "oldest_due_ms"),
    "retrying_now": Metric("gauge", "count", "retrying"),
    "dead_letters": Metric("gauge", "count", "dead"),
    "workers": Metric("gauge", "count", "workers"),
}
"""What `series` can read. By event type: `emitted`, `fired`, `schedule_lateness`. By handler or destination: `attempts`
to `duration`. The others have no names. `commit_to_start` is that of first attempts, from the emission on: when a
transaction was committed is not known. The last five are numbers that a worker reads once a minute; a step has the
highest."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of durations: `counts[i]` values are below `BOUNDS_MS[i]`, and at least the bound before it."""

    counts: tuple[int, ...] = ()
    total_ms: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean_ms(self) -> float | None:
        return self.total_ms / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a series: `count`, and for a metric of times their histogram."""

    at: datetime
    count: int
    histogram: Histogram | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of one event type, handler or destination; of all of them where the name is empty.

    `count` is the number of events, of attempts that ran, of occurrences that fired, or of lines in the log.
    """

    name: str
    count: int
    delivered: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    discarded: int = 0
    expired: int = 0
    rescued: int = 0
    repeated: int = 0
    """Delivered or dead after more than one attempt."""
    lateness: Histogram = Histogram()
    commit_to_start: Histogram = Histogram()
    duration: Histogram = Histogram()


# Rolling up


def roll_up(using: str | None = None, *, minutes: int = MOST_MINUTES, now: datetime | None = None) -> int:
    """Count up to `minutes` minutes that have ended. Returns how many were counted; there may be more until it is 0. It
    does not wait for another process that rolls up at the same time, and returns 0."""
    alias = using or conf().DATABASE
    with transaction.atomic(using=alias):
        if not store.try_lock(alias):
            return 0
        moment = now or datetime.fromtimestamp(database_time(alias), UTC)
        ended, settled = _minute(moment - AFTER), _minute(moment - AGAIN_AFTER)
        passes = store.progress(alias)
        first = max(passes.get("first") or _start(alias, ended), ended - KEEP)
        again = max(passes.get("again") or first, ended - KEEP)
        if first > ended:  # the clock was set back: count again, nothing is counted double
            first, again = ended, min(again, ended - AGAIN_AFTER)
            store.set_progress(alias, "first", first)
            store.set_progress(alias, "again", again)
        if first < ended:
            until = min(first + minutes * MINUTE, ended)
            _count(alias, first, until)
            counted, done = until - first, until if again == first and until <= settled else again
            first = until
        elif settled - again >= SECOND_PASS_BATCH:
            done = min(again + minutes * MINUTE, settled)
            _count(alias, again, done)
            counted = done - again
        else:
            return 0
        for hour in _hours(again, done):
            store.write_hour(alias, hour)
        store.set_progress(alias, "first", first)
        store.set_progress(alias, "again", done)
        store.prune(alias, moment - KEEP, PRUNE_LIMIT)
    if first == ended:
        _read_gauges_safely(alias, _minute(moment))
    return counted // MINUTE


def _count(using: str, since: datetime, before: datetime) -> None:
    rows = store.count(using, since, before)
    store.remove_others(using, since, before, rows)
    store.write(using, rows)


def _start(using: str, ended: datetime) -> datetime:
    """The first minute to count if nothing was ever counted."""
    oldest = store.oldest(using)
    return _minute(oldest) if oldest else ended


def _hours(since: datetime, until: datetime) -> list[datetime]:
    """Those of which the last minute is between these two."""
    first, last = _hour(since), _hour(until)
    return [first + number * HOUR for number in range((last - first) // HOUR)]


def _read_gauges_safely(using: str, minute: datetime) -> None:
    """In a transaction of its own: what was counted stays, whatever happens here."""
    try:
        with transaction.atomic(using=using):
            _read_gauges(using, minute)
    except Exception as error:
        logger.warning("gauges of a minute not stored: %s", str(error).strip())


def _read_gauges(using: str, minute: datetime) -> None:
    found = status(using=using)
    readings = {
        "due": found.due,
        "oldest_due_ms": round((found.oldest_due_seconds or 0.0) * 1000),
        "retrying": found.retrying,
        "dead": found.dead,
        "workers": found.workers,
    }
    rows = {("gauge", name, minute): Counts() for name in readings}
    for (_, name, _), counts in rows.items():
        counts.counters["count"] = readings[name]
    store.write(using, rows)


# Reading


def counted_until(using: str | None = None) -> datetime | None:
    """Minutes before this one were counted. None: nothing was ever counted; a worker does it."""
    return store.progress(using or conf().DATABASE).get("first")


def series(
    metric: str,
    since: datetime,
    until: datetime,
    step: timedelta = MINUTE,
    name: str | None = None,
    using: str | None = None,
) -> list[Point]:
    """A point for each step from `since` on and before `until`, zero where nothing happened. `since` is rounded down to
    its minute. `name` is an event type, handler or destination (`to:hooks`); None is all of them together."""
    found = METRICS.get(metric)
    if found is None:
        raise InvalidAction(f"There is no metric {metric!r}; known are {', '.join(METRICS)}.")
    if step < MINUTE or step % MINUTE:
        raise InvalidAction(f"The step is {step}; it must be whole minutes, such as timedelta(minutes=5).")
    alias, seconds = using or conf().DATABASE, int(step.total_seconds())
    start = _minute(since)
    between = _range(alias, start, until, by_hour=not step % HOUR and start == _hour(start))
    row = found.name or name or ALL
    sums = store.series(alias, found.kind, row, between, seconds)
    buckets = store.histograms(alias, found.kind, row, found.column, between, seconds) if found.is_histogram else {}
    points = []
    while start < until:
        step_sums = sums.get(start, _ZERO)
        if found.is_histogram:
            histogram = Histogram(buckets.get(start, ()), getattr(step_sums, f"{found.column}_ms"))
            points.append(Point(start, histogram.count, histogram))
        else:
            points.append(Point(start, getattr(step_sums, found.column)))
        start += step
    return points


def totals(
    kind: str,
    since: datetime,
    until: datetime,
    name: str | None = None,
    *,
    histograms: bool = True,
    using: str | None = None,
) -> dict[str, Total]:
    """The sums of a time by name, the most frequent first; before them the sum of all, under `ALL`, which is "".

    `kind` is `event`, `subscriber`, `schedule`, `schedule_log` or `gauge`. With `name` only that one is read. Without
    histograms it takes a fifth of the time, which matters for many names and days. Empty where nothing happened."""
    kinds = {each.kind for each in METRICS.values()}
    if kind not in kinds:
        raise InvalidAction(f"There is no kind {kind!r}; known are {', '.join(sorted(kinds))}.")
    alias = using or conf().DATABASE
    found, between = {}, _range(alias, _minute(since), until, by_hour=True)
    with_times = histograms and kind in ("subscriber", "schedule")
    for each, sums, buckets in store.totals(alias, kind, name, between, histograms=with_times):
        counters = asdict(sums)
        lateness, wait, duration = (
            Histogram(counts, counters.pop(f"{which}_ms")) for which, counts in zip(HISTOGRAMS, buckets, strict=True)
        )
        found[each] = Total(each, **counters, lateness=lateness, commit_to_start=wait, duration=duration)
    return found


def percentile(histogram: Histogram | Sequence[int], share: float) -> float | None:
    """The percentile of a histogram in milliseconds, 0.99 for p99; None if nothing was counted.

    Within a bucket the values are taken to be spread evenly. In the last one, which is open, it is the lower bound."""
    if not 0 < share <= 1:
        raise InvalidAction(f"The share is {share!r}; it must be above 0 and at most 1, such as 0.99.")
    counts = histogram.counts if isinstance(histogram, Histogram) else histogram
    wanted, below = share * sum(counts), 0
    for bucket, upto in enumerate(accumulate(counts)):
        if upto >= wanted and upto > below:
            low = BOUNDS_MS[bucket - 1] if bucket else 0.0
            high = BOUNDS_MS[bucket] if bucket < len(BOUNDS_MS) else low
            return low + (high - low) * (wanted - below) / (upto - below)
        below = upto
    return None


def _range(using: str, since: datetime, until: datetime, *, by_hour: bool) -> Range:
    """Rows of hours instead of minutes, if they exist."""
    if by_hour and until - since >= HOUR:
        first = _hour(since + HOUR - MINUTE)
        last = _hour(min(until, store.progress(using).get("again", since)))
        if first < last:
            return Range(since, first, last, until)
    return Range(since, until, until, until)


def _minute(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
