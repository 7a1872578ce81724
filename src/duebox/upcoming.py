"""What is to come: stored for the next occurrence, calculated for those after it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from duebox import clock
from duebox.emit import About, aggregate_of
from duebox.intent import described, read_intent
from duebox.planner import unlimited
from duebox.schedule import alias_in_use
from duebox.store import schedules
from duebox.when import between
from duebox.when.times import instant

if TYPE_CHECKING:
    from duebox.models import Schedule


@dataclass(frozen=True, slots=True, order=True)
class Upcoming:
    """One occurrence to come: the instant, and how the clock on the wall shows it."""

    at: datetime
    key: str
    occurrence: str
    type: str
    local: str
    zone: str
    marks: tuple[str, ...]
    about: tuple[str, str] | None
    plan: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "at": self.at.isoformat()}


def upcoming(
    about: About = None,
    *,
    days: float = 7,
    start: datetime | None = None,
    key: str | None = None,
    plan: str | None = None,
    type: str | None = None,
    limit: int = 1000,
    using: str | None = None,
) -> list[Upcoming]:
    """What will fire within so many days from now, or from `start`: in order, repetitions included.

    Of one entity, one schedule, one plan or one type of event, or of everything.
    """
    first = instant(start, "start") if start is not None else clock.now()
    last = first + timedelta(days=days)
    rows = schedules.rows(using or alias_in_use()).scheduled().filter(due_at__lt=last)
    if about is not None:
        rows = rows.about(*aggregate_of(about))
    asked = {"key": key, "plan": plan, "type": type}
    rows = rows.filter(**{name: value for name, value in asked.items() if value is not None})
    ordered = rows.order_by("due_at", "id")[:limit] if start is None else rows
    return list(islice(heapq.merge(*(_of(row, first, last) for row in ordered)), limit))


def _of(row: Schedule, first: datetime, last: datetime) -> Iterator[Upcoming]:
    """The occurrences of one schedule in a span; an overdue one is still to come."""
    assert row.due_at is not None
    if row.due_at >= first or clock.now() >= first:
        yield _one(row, row.due_at, row.occurrence, row.local_time, row.marks)
    intent = read_intent(row.intent)
    if intent.table.rule.single:
        return
    since = max(clock.now(), row.due_at + timedelta.resolution)
    if row.remaining is None:  # otherwise those before the span use it up
        since = max(since, first)
    following = between(unlimited(intent.table), since, max(since, last), seed=row.key)
    left = None if row.remaining is None else max(0, row.remaining - 1)
    for one in islice((one for one in following if one.key != row.occurrence), left):
        if one.instant >= first:
            yield _one(row, one.instant, one.key, *described(one))


def _one(row: Schedule, at: datetime, occurrence: str, local: str, marks: str) -> Upcoming:
    return Upcoming(
        at=at,
        key=row.key,
        occurrence=occurrence,
        type=row.type,
        local=local,
        zone=row.zone,
        marks=tuple(marks.split(",")) if marks else (),
        about=(row.aggregate_type, row.aggregate_id) if row.aggregate_type else None,
        plan=row.plan,
    )
