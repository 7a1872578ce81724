"""Service level objectives: the state of each one, how fast its budget burns, and which events stopped coming.

All of it is read from the counts per minute and from `duebox status`, so it costs the same with any number of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from duebox.conf import SLO_DEFAULTS, SLO_IGNORE, conf
from duebox.destinations.names import serves_endpoints
from duebox.destinations.registry import subscriptions
from duebox.events.address import Address
from duebox.events.wildcards import fits_any
from duebox.models import Schedule
from duebox.observe.lines import span
from duebox.observe.rollup import ALL, BOUNDS_MS, HOUR, Histogram, Total, percentile, totals
from duebox.observe.status import LATE_SECONDS, Status, status
from duebox.store import rollup as store
from duebox.store.run_sql import database_time, migrated

DAY = timedelta(days=1)
SHARE = 0.99
"""Objectives of times are about the p99: one in a hundred may take longer."""
STALE = timedelta(minutes=5)
"""If no minutes were counted for this long, that is reported as a problem."""
HISTORY = timedelta(days=14)
"""The period from which the regularity of an event type is computed: it has two weekends."""
LEAST_HOURS = 10
"""An event type must have come in at least so many hours."""
LEAST_TIMES = 5
"""The period must be at least so many times as long as its longest pause."""
SHOWN = 5

OK, WARNING, BROKEN, NO_DATA = "ok", "warning", "broken", "no data"
TITLES = {
    "publish_seconds": "Publish latency, p99",
    "delivery_success": "Delivery success",
    "webhook_success": "Webhook delivery success",
    "dead_letters": "Dead letters",
    "schedule_seconds": "Lateness of schedules, p99",
}
UNITS = {
    "publish_seconds": "s",
    "delivery_success": "%",
    "webhook_success": "%",
    "dead_letters": "",
    "schedule_seconds": "s",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """The state of one objective."""

    name: str
    """Its key in `DUEBOX["SLO"]`."""
    title: str
    unit: str
    """`s`, `%`, or empty for a number."""
    value: float | None
    """Of the last hour, or of the last day where the hour has nothing. Dead letters are those of this moment."""
    target: float
    alert: float
    burn_1h: float | None
    """How fast the budget is used up: at 1 the target is just met, at 2 there are twice as many failures as allowed. Of
    dead letters, which have no budget, the highest number compared with the alert threshold."""
    burn_24h: float | None
    state: str
    """`ok`, `warning` (the target is missed), `broken` (beyond the alert threshold) or `no data`."""
    count_1h: int = 0
    """How many were counted."""
    count_24h: int = 0

    def shown(self, value: float | None) -> str:
        """A value of this objective for people."""
        if value is None:
            return "-"
        return f"{value:,.3g}" if self.unit == "s" and value < 100 else f"{value:,.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Absence:
    """An event, a schedule or a count that should have come and has not."""

    kind: str
    """`event`, `schedule` or `rollup`."""
    name: str
    since: datetime
    """When it came last, or should have come."""
    text: str
    """What is missing, and what to do."""


@dataclass(frozen=True, slots=True)
class Report:
    objectives: tuple[Objective, ...]
    absent: tuple[Absence, ...]
    counted_until: datetime | None
    """Minutes before this one were counted."""

    @property
    def is_broken(self) -> bool:
        return bool(self.absent) or any(each.state == BROKEN for each in self.objectives)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "state": BROKEN if self.is_broken else self._worst(),
            "objectives": [asdict(each) for each in self.objectives],
            "absent": [{**asdict(each), "since": each.since.isoformat()} for each in self.absent],
            "counted_until": self.counted_until.isoformat() if self.counted_until else None,
        }

    def _worst(self) -> str:
        states = {each.state for each in self.objectives}
        return next((each for each in (WARNING, OK) if each in states), NO_DATA)


def slo(
    *,
    using: str | None = None,
    now: datetime | None = None,
    known_status: Status | None = None,
    regularity: Callable[[str, datetime, datetime], Sequence[store.Regular]] = store.regularity,
) -> Report:
    """All objectives that are switched on, and what is absent. A caller that has a fresh status passes it as
    `known_status`; one that asks often passes a cached `regularity`, which changes once an hour."""
    alias = using or conf().DATABASE
    moment = now or datetime.fromtimestamp(database_time(alias), UTC)
    known_status = known_status or status(using=alias)
    passes = store.progress(alias)
    windows = [_Window(alias, moment - HOUR, moment), _Window(alias, moment - DAY, moment)]
    found = [_read(name, *limits, windows, known_status) for name, limits in objectives().items()]
    absent = [*_stale(passes.get("first"), moment), *_overdue(alias, known_status, moment)]
    if not any(each.kind == "rollup" for each in absent):  # otherwise it is unknown
        absent += _absent_types(alias, passes.get("again"), moment, regularity)
    return Report(tuple(found), tuple(absent), passes.get("first"))


def _read(name: str, target: float, alert: float, windows: list[_Window], known_status: Status) -> Objective:
    match name:
        case "publish_seconds":
            return _times(name, target, alert, [each.publish for each in windows], known_status.oldest_due_seconds)
        case "schedule_seconds":
            return _times(
                name, target, alert, [each.schedules for each in windows], known_status.oldest_overdue_seconds
            )
        case "webhook_success":
            return _success(name, target, alert, [each.webhooks for each in windows])
        case "delivery_success":
            return _success(name, target, alert, [each.deliveries for each in windows])
    return _dead_letters(target, alert, [each.dead for each in windows], known_status)


def objectives() -> dict[str, tuple[float, float]]:
    """The target and the alert threshold of each objective that is switched on."""
    given = conf().SLO
    found = {}
    for name, (target, alert) in SLO_DEFAULTS.items():
        own = given.get(name, {})
        if own is not None:
            found[name] = (float(own.get("target", target)), float(own.get("alert", alert)))
    return found


# The objectives


class _Window:
    """What was counted in the last hour, or in the last day."""

    def __init__(self, using: str, since: datetime, until: datetime) -> None:
        by_name = totals("subscriber", since, until, histograms=False, using=using)
        hooks = {str(Address.of_destination(alias)) for alias in subscriptions() if serves_endpoints(alias)}
        self.webhooks = _outcomes(each for name, each in by_name.items() if name in hooks)
        self.deliveries = _outcomes(each for name, each in by_name.items() if name != ALL and name not in hooks)
        everything = totals("subscriber", since, until, ALL, using=using).get(ALL)
        self.publish = everything.commit_to_start if everything else Histogram()
        fired = totals("schedule", since, until, ALL, using=using).get(ALL)
        self.schedules = fired.lateness if fired else Histogram()
        dead = totals("gauge", since, until, "dead", using=using).get("dead")
        self.dead = dead.count if dead else None


def _outcomes(found: Iterable[Total]) -> tuple[int, int]:
    """Attempts that delivered, and attempts that failed."""
    rows = list(found)
    return sum(each.delivered for each in rows), sum(each.retried + each.dead for each in rows)


def _success(name: str, target: float, alert: float, windows: list[tuple[int, int]]) -> Objective:
    shares = [100 * good / (good + bad) if good + bad else None for good, bad in windows]
    burns = [None if share is None else (100 - share) / (100 - target) for share in shares]
    value = next((share for share in shares if share is not None), None)
    counts = [good + bad for good, bad in windows]
    return _objective(name, value, target, alert, burns, counts, more_is_better=True)


def _times(name: str, target: float, alert: float, windows: list[Histogram], waiting: float | None) -> Objective:
    """What still waits counts as well: without workers nothing starts, and nothing would be late."""
    burns = [_share_above(each, target * 1000) / (1 - SHARE) if each.count else None for each in windows]
    found = [p99 / 1000 for each in windows if (p99 := percentile(each, SHARE)) is not None][:1]
    if waiting is not None and waiting > max([target, *found]):
        found = [waiting]
    counts = [each.count for each in windows]
    return _objective(name, found[0] if found else None, target, alert, burns, counts)


def _share_above(histogram: Histogram, limit_ms: float) -> float:
    """The share that took longer; within a bucket the values are taken to be spread evenly."""
    above = 0.0
    for bucket, number in enumerate(histogram.counts):
        low = BOUNDS_MS[bucket - 1] if bucket else 0.0
        high = BOUNDS_MS[bucket] if bucket < len(BOUNDS_MS) else float("inf")
        if low >= limit_ms or high == float("inf"):
            above += number
        elif high > limit_ms:
            above += number * (high - limit_ms) / (high - low)
    return above / histogram.count


def _dead_letters(target: float, alert: float, windows: list[int | None], known_status: Status) -> Objective:
    """Now, and the highest readings. Those that were parked do not count."""
    highest = [None if each is None else max(each, known_status.dead) for each in windows]
    burns = [None if each is None else each / max(alert, 1.0) for each in highest]
    counts = [each or 0 for each in highest]
    return _objective("dead_letters", float(known_status.dead), target, alert, burns, counts, of_the_past=False)


def _objective(
    name: str,
    value: float | None,
    target: float,
    alert: float,
    burns: list[float | None],
    counts: list[int],
    *,
    more_is_better: bool = False,
    of_the_past: bool = True,
) -> Objective:
    def is_worse(limit: float) -> bool:
        return value is not None and (value < limit if more_is_better else value > limit)

    if value is None:
        state = NO_DATA
    elif is_worse(alert):
        state = BROKEN
    elif is_worse(target) or (of_the_past and (burns[1] or 0.0) > 1.0):
        state = WARNING
    else:
        state = OK
    return Objective(
        name, TITLES[name], UNITS[name], value, target, alert, burns[0], burns[1], state, counts[0], counts[1]
    )


# What is absent


def _stale(counted_until: datetime | None, now: datetime) -> list[Absence]:
    if counted_until is None or now - counted_until <= STALE + timedelta(minutes=1):
        return []
    text = (
        f"No minute was counted since {counted_until:%Y-%m-%d %H:%M} UTC, so the objectives are out of date; a worker "
        "counts them: manage.py duebox worker"
    )
    return [Absence("rollup", "", counted_until, text)]


def _overdue(using: str, known_status: Status, now: datetime) -> list[Absence]:
    """Schedules whose rule says that they should have fired."""
    if not known_status.schedules_overdue:
        return []
    late = now - timedelta(seconds=LATE_SECONDS)
    with migrated(using):
        rows = Schedule.objects.using(using).filter(status="scheduled", due_at__lte=late).order_by("due_at", "id")
        found = list(rows.values_list("key", "type", "due_at")[:SHOWN])
    return [
        Absence(
            "schedule", key, due_at,
            f"The schedule {key!r} should have fired {type} {span((now - due_at).total_seconds())} ago; a worker fires "
            f"it: manage.py duebox worker. `manage.py duebox explain {key}` says what stops it",
        )
        for key, type, due_at in found
        if due_at is not None
    ]  # fmt: skip


def _absent_types(
    using: str,
    counted_again: datetime | None,
    now: datetime,
    regularity: Callable[[str, datetime, datetime], Sequence[store.Regular]],
) -> list[Absence]:
    """Event types that came regularly in the last two weeks, and have not come for longer than their longest pause."""
    if counted_again is None:
        return []
    ignored = conf().SLO.get(SLO_IGNORE, ())
    recent = counted_again.replace(minute=0, second=0, microsecond=0)
    found = []
    for each in regularity(using, now - HISTORY, recent):
        if each.pause is None or fits_any(each.name, ignored):
            continue
        known = each.last - each.first
        if each.hours < LEAST_HOURS or known < LEAST_TIMES * each.pause:
            continue
        allowed = 1.5 * each.pause + HOUR
        if now - each.last > allowed:
            text = (
                f"No {each.name} event was emitted for {span((now - each.last).total_seconds())}; in the two weeks "
                f"before, the longest pause was {span(each.pause.total_seconds())}. Look at what emits it; if there "
                f"will be none any more, add it to DUEBOX['SLO']['ignore']"
            )
            found.append(Absence("event", each.name, each.last, text))
    return found
