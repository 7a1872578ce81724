"""Counts per minute and hour, computed from ranges of the history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from duebox.store.run_sql import execute, number_array, run, text_array

BOUNDS_MS = tuple(2.0**power for power in range(23))
"""Histograms have a bucket below 1 ms, one up to each power of two, and one from 2**22 ms, which is 70 minutes."""
MOST_NAMES = 1_000
"""The maximum number of names per minute and kind; the rarest ones are counted together as `other`."""
ALL, OTHER = "", "other"
COUNTERS = ("count", "delivered", "retried", "dead", "snoozed", "discarded", "expired", "rescued", "repeated")
HISTOGRAMS = ("lateness", "wait", "duration")
SLOWEST = timedelta(seconds=30)
"""Ids of attempts are given out while their statement runs, and `settled_at` is when it began. A worker's statement
takes no longer than this, or it is ended."""
_BOUNDS = number_array(BOUNDS_MS)


@dataclass(slots=True)
class Counts:
    """One row that is being counted."""

    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))
    buckets: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in HISTOGRAMS})

    def measured(self, histogram: str, bucket: int, number: int, total_ms: float) -> None:
        buckets = self.buckets[histogram]
        buckets.extend([0] * (bucket + 1 - len(buckets)))
        buckets[bucket] += number
        self.sums[histogram] += total_ms

    def add(self, other: Counts) -> None:
        for name in COUNTERS:
            self.counters[name] += other.counters[name]
        for name in HISTOGRAMS:
            for bucket, number in enumerate(other.buckets[name]):
                self.measured(name, bucket, number, 0.0)
            self.sums[name] += other.sums[name]


Key = tuple[str, str, datetime]
"""Kind, name and minute."""


def try_lock(using: str) -> bool:
    """Whether the current transaction is the only one that rolls up."""
    return bool(run("rollup_lock", using, {})[0][0])


def progress(using: str) -> dict[str, datetime]:
    """By the name of the pass, the first minute that it has not counted."""
    return dict(run("rollup_progress", using, {}))


def set_progress(using: str, name: str, minute: datetime) -> None:
    execute("rollup_progress_write", using, {"name": name, "minute": minute})
    execute("rollup_progress_remove", using, {"name": name, "minute": minute})


def oldest(using: str) -> datetime | None:
    """The time of the oldest row that could be counted."""
    [(event, attempt, line)] = run("rollup_first", using, {})
    made = datetime.fromtimestamp((UUID(event).int >> 80) / 1000, UTC) if event else None
    return min((each for each in (made, attempt, line) if each is not None), default=None)


def count(using: str, since: datetime, before: datetime) -> dict[Key, Counts]:
    """What happened in the minutes from `since` on and before `before`, with a row for all names of a kind."""
    rows: dict[Key, Counts] = {}
    _count_events(using, since, before, rows)
    _count_attempts(using, since, before, rows)
    _count_log(using, since, before, rows)
    return _summed(rows)


def _count_events(using: str, since: datetime, before: datetime, rows: dict[Key, Counts]) -> None:
    params = {"from": _first_id(since), "until": _first_id(before), "bounds": _BOUNDS}
    for minute, type, bucket, number, late in run("rollup_events", using, params):
        rows.setdefault(("event", type, minute), Counts()).counters["count"] += number
        if bucket is not None:
            fired = rows.setdefault(("schedule", type, minute), Counts())
            fired.counters["count"] += number
            fired.measured("lateness", bucket, number, late)


def _first_id(moment: datetime) -> str:
    """The lowest UUID of version 7 of this moment."""
    return str(UUID(int=int(moment.timestamp() * 1000) << 80))


def _count_attempts(using: str, since: datetime, before: datetime, rows: dict[Key, Counts]) -> None:
    [(lowest,)] = run("rollup_attempts_from", using, {"moment": since - SLOWEST})
    [(highest,)] = run("rollup_attempts_from", using, {"moment": before + SLOWEST})
    params = {"from": lowest, "until": highest, "since": since, "before": before, "bounds": _BOUNDS}
    for row in run("rollup_attempts", using, params):
        minute, name, outcome, is_first, late_bucket, took_bucket, number, late_ms, took_ms = row
        counts = rows.setdefault(("subscriber", name, minute), Counts())
        if outcome in counts.counters:
            counts.counters[outcome] += number
        if outcome in ("delivered", "dead") and not is_first:
            counts.counters["repeated"] += number
        if late_bucket is not None:
            counts.counters["count"] += number
            counts.measured("lateness", late_bucket, number, late_ms)
            if is_first:
                counts.measured("wait", late_bucket, number, late_ms)
        if took_bucket is not None:
            counts.measured("duration", took_bucket, number, took_ms)


def _count_log(using: str, since: datetime, before: datetime, rows: dict[Key, Counts]) -> None:
    [(lowest,)] = run("rollup_log_from", using, {"moment": since - SLOWEST})
    [(highest,)] = run("rollup_log_from", using, {"moment": before + SLOWEST})
    params = {"from": lowest, "until": highest, "since": since, "before": before}
    for minute, what, number in run("rollup_log", using, params):
        rows.setdefault(("schedule_log", what, minute), Counts()).counters["count"] += number


def _summed(rows: dict[Key, Counts]) -> dict[Key, Counts]:
    """With the sums of all names, and with the rarest names above the limit counted together."""
    found: dict[tuple[str, datetime], list[tuple[str, Counts]]] = {}
    for (kind, name, minute), counts in rows.items():
        found.setdefault((kind, minute), []).append((name, counts))
    result: dict[Key, Counts] = {}
    for (kind, minute), names in found.items():
        if len(names) > MOST_NAMES:
            names.sort(key=lambda each: (-sum(each[1].counters.values()), each[0]))
        total = result[(kind, ALL, minute)] = Counts()
        for place, (name, counts) in enumerate(names):
            total.add(counts)
            key = (kind, name if place < MOST_NAMES else OTHER, minute)
            if key in result:
                result[key].add(counts)
            else:
                result[key] = counts
    return result


def write(using: str, rows: dict[Key, Counts]) -> None:
    """Write rows of minutes, in place of those with the same key."""
    if not rows:
        return
    columns: dict[str, str] = {}
    for name in COUNTERS:
        columns[name] = number_array(each.counters[name] for each in rows.values())
    for name in HISTOGRAMS:
        columns[f"{name}_ms"] = number_array(each.sums[name] for each in rows.values())
        columns[name] = text_array(
            number_array(each.buckets[name]) if each.buckets[name] else None for each in rows.values()
        )
    execute("rollup_write", using, {"span": 1, **_keys(rows), **columns})


def remove_others(using: str, since: datetime, before: datetime, rows: Iterable[Key]) -> None:
    """Remove rows of these minutes that are not among the given ones."""
    execute("rollup_remove", using, {"since": since, "before": before, **_keys(rows)})


def _keys(rows: Iterable[Key]) -> dict[str, str]:
    keys = list(rows)
    return {
        "kind": text_array([kind for kind, _, _ in keys]),
        "name": text_array([name for _, name, _ in keys]),
        "minute": text_array([minute.isoformat() for _, _, minute in keys]),
    }


def write_hour(using: str, hour: datetime) -> None:
    """From its minutes."""
    execute("rollup_hour_remove", using, {"hour": hour})
    execute("rollup_hour", using, {"hour": hour})


def prune(using: str, before: datetime, limit: int) -> int:
    """Returns how many rows were removed."""
    return len(run("rollup_prune", using, {"before": before, "limit": limit}))


class Range(NamedTuple):
    """Minutes from `since` on and before `before`. From `hours_from` to `hours_until` the rows of hours are read."""

    since: datetime
    hours_from: datetime
    hours_until: datetime
    before: datetime


@dataclass(frozen=True, slots=True)
class Sums:
    """The counters and sums of one step or name, in the order of rollup_series.sql and rollup_totals.sql."""

    count: int
    delivered: int
    retried: int
    dead: int
    snoozed: int
    discarded: int
    expired: int
    rescued: int
    repeated: int
    lateness_ms: float
    wait_ms: float
    duration_ms: float


def series(using: str, kind: str, name: str, between: Range, step_seconds: int) -> dict[datetime, Sums]:
    """By the beginning of each step in which something was counted."""
    params = {"kind": kind, "name": name, "step": step_seconds, **between._asdict()}
    return {at: Sums(*rest) for at, *rest in run("rollup_series", using, params)}


def histograms(
    using: str, kind: str, name: str, histogram: str, between: Range, step_seconds: int
) -> dict[datetime, tuple[int, ...]]:
    params = {"kind": kind, "name": name, "histogram": histogram, "step": step_seconds, **between._asdict()}
    return {at: _trimmed(buckets) for at, buckets in run("rollup_histograms", using, params)}


def _trimmed(buckets: Sequence[int | None]) -> tuple[int, ...]:
    """Without the zeros at the end, as they are stored."""
    counts = [each or 0 for each in buckets]
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)


class TotalRow(NamedTuple):
    name: str
    sums: Sums
    buckets: tuple[tuple[int, ...], ...]
    """In the order of HISTOGRAMS."""


def totals(using: str, kind: str, name: str | None, between: Range, *, histograms: bool) -> list[TotalRow]:
    """By name, the most frequent first; the sum of all names before them."""
    params = {"kind": kind, "name": name, **between._asdict()}
    rows = run("rollup_totals", using, params) if histograms else run("rollup_counts", using, params)
    return [
        TotalRow(row[0], Sums(*row[1:13]), tuple(map(_trimmed, row[13:])) or ((),) * len(HISTOGRAMS)) for row in rows
    ]


class Regular(NamedTuple):
    """How an event type came, in the order of rollup_regular.sql."""

    name: str
    hours: int
    """The number of hours in which it came."""
    first: datetime
    last: datetime
    """The end of the hour or minute in which it came last."""
    pause: timedelta | None
    """The longest between the beginnings of two hours in which it came."""


def regularity(using: str, since: datetime, recent: datetime) -> list[Regular]:
    """From the hours since `since`, and the minutes since `recent`."""
    return [Regular(*row) for row in run("rollup_regular", using, {"since": since, "recent": recent})]
