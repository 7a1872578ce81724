"""Upcoming occurrences: the next one is stored, those after it are calculated."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import models

from duebox import clock
from duebox.context.current import names_async_form
from duebox.events.fact import Aggregate
from duebox.exceptions import InvalidSchedule
from duebox.schedules.intent import described, read_intent
from duebox.schedules.planner import unlimited
from duebox.schedules.schedule import Entities, Key, alias_in_use, entities_of, key_of
from duebox.store import run_sql, schedules
from duebox.store.run_sql import any_of
from duebox.when import describe
from duebox.when import upcoming as occurrences
from duebox.when.times import instant

if TYPE_CHECKING:
    from duebox.models import Schedule
    from duebox.models.schedule import ScheduleQuerySet

A_WEEK = timedelta(days=7)
MOST = 1000


@dataclass(frozen=True, slots=True, order=True)
class Upcoming:
    """An upcoming occurrence: the instant and the local time."""

    at: datetime
    key: str
    occurrence: str
    type: str
    local: str
    zone: str
    marks: tuple[str, ...]
    about: Aggregate | None
    plan: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True, slots=True)
class UpcomingSchedule:
    """One schedule that will fire: what comes next, its rule in English, how often it fires in the span that was asked
    for, and what became of what fired last."""

    next: Upcoming
    rule: str
    count: int
    """At most 1,000; with `more` it fires more often than that."""
    more: bool
    last_state: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        own = {"rule": self.rule, "count": self.count, "more": self.more, "last_state": self.last_state}
        return {**self.next.as_dict(), **own}


@names_async_form
def upcoming(
    about: Entities = None,
    *,
    days: float | None = None,
    until: datetime | None = None,
    start: datetime | None = None,
    key: Key | None = None,
    plan: str | None = None,
    type: str | None = None,
    limit: int | None = None,
    include_internal: bool = False,
    using: str | None = None,
) -> list[Upcoming]:
    """Upcoming occurrences, ordered by time: of one entity or type of entities, one schedule, one plan, one type of
    event, or of all schedules.

    Within `days`, or up to `until`; by default seven days. With `about` or `key` and without a period there is no
    horizon: it returns the next occurrence of each schedule, however far away, and its repetitions within seven days;
    with `limit` that many, repetitions included. Duebox's own schedules are included only if `about`, `key` or `type`
    names them, or with `include_internal`.
    """
    alias = using or alias_in_use()
    span = _Span.of(alias, start, days, until, open=about is not None or key is not None, limit=limit)
    rows = span.of_rows(_asked_for(alias, about, key, plan, type, include_internal))
    most = MOST if limit is None else limit
    ordered = rows.order_by("due_at", "id")[:most] if start is None else rows
    return list(islice(heapq.merge(*(span.of_row(row) for row in schedules.listed(ordered))), most))


@names_async_form
def upcoming_of(
    rows: Iterable[models.Model],
    *,
    days: float | None = None,
    until: datetime | None = None,
    start: datetime | None = None,
    limit: int | None = None,
    using: str | None = None,
) -> dict[Any, list[Upcoming]]:
    """Upcoming occurrences of many rows of a model, a queryset or a list, by primary key, with one query.

    For each row it is the same as `upcoming(row)`, and `limit` counts per row.
    """
    about = {row.pk: entities_of(row) for row in rows}
    kinds = {kind for kind, _ in about.values()}
    if len(kinds) > 1:
        raise InvalidSchedule(f"The rows are of several models ({', '.join(sorted(kinds))}); ask for each of them.")
    if not about:
        return {}
    alias = using or alias_in_use()
    span = _Span.of(alias, start, days, until, open=True, limit=limit)
    found = span.of_rows(schedules.rows(alias).scheduled()).about(*kinds)
    by_id: dict[str, list[Schedule]] = {}
    for each in schedules.listed(found.filter(any_of("aggregate_id", (pk for _, pk in about.values())))):
        by_id.setdefault(each.aggregate_id, []).append(each)
    most = MOST if limit is None else limit
    return {
        pk: list(islice(heapq.merge(*(span.of_row(each) for each in by_id.get(id or "", ()))), most))
        for pk, (_, id) in about.items()
    }


@names_async_form
def upcoming_schedules(
    about: Entities = None,
    *,
    days: float | None = None,
    until: datetime | None = None,
    start: datetime | None = None,
    key: Key | None = None,
    plan: str | None = None,
    type: str | None = None,
    limit: int | None = None,
    include_internal: bool = False,
    using: str | None = None,
) -> list[UpcomingSchedule]:
    """The schedules that will fire, ordered by their next occurrence, each with its rule in English and with how often
    it fires in the period.

    It has the arguments of `upcoming`. With `about` or `key` and without a period there is no horizon for the next
    occurrence, and those within seven days are counted.
    """
    alias = using or alias_in_use()
    span = _Span.of(alias, start, days, until, open=about is not None or key is not None, limit=None)
    rows = span.of_rows(_asked_for(alias, about, key, plan, type, include_internal)).with_state()
    most = MOST if limit is None else limit
    ordered = rows.order_by("due_at", "id")[:most] if start is None else rows
    found = [each for row in schedules.listed(ordered) if (each := _upcoming_schedule(row, span))]
    return sorted(found, key=lambda each: each.next)[:most]


def _upcoming_schedule(row: Schedule, span: _Span) -> UpcomingSchedule | None:
    coming = _occurrences(row, span.first)
    first = next(coming, None)
    if first is None or (span.last is not None and first.at >= span.last):
        return None
    end = span.last or span.repeats_until
    within = takewhile(lambda one: end is None or one.at < end, chain([first], coming))
    count = sum(1 for _ in islice(within, MOST + 1))
    table = replace(read_intent(row.intent).table, zone="", remaining=row.remaining)
    rule = describe(table).removesuffix(".")
    return UpcomingSchedule(first, rule, min(count, MOST), count > MOST, getattr(row, "last_state", ""))


def _asked_for(
    alias: str, about: Entities, key: Key | None, plan: str | None, type: str | None, include_internal: bool
) -> ScheduleQuerySet:
    rows = schedules.rows(alias).scheduled()
    if about is not None:
        rows = rows.about(*entities_of(about))
    asked = {"key": None if key is None else key_of(key), "plan": plan, "type": type}
    rows = rows.filter(**{name: value for name, value in asked.items() if value is not None})
    if not include_internal and about is None and key is None and type is None:
        rows = rows.of_project()
    return rows


class _Span(NamedTuple):
    """From when to when to look. Without `last` the next occurrence of a schedule counts wherever it is, and those
    after it up to `repeats_until`, if there is such a bound."""

    first: datetime
    last: datetime | None
    repeats_until: datetime | None

    @classmethod
    def of(
        cls, alias: str, start: datetime | None, days: float | None, until: datetime | None, *, open: bool,
        limit: int | None,
    ) -> _Span:  # fmt: skip
        if days is not None and until is not None:
            raise InvalidSchedule(f"days={days} and until={until} both say how far to look; pass one of them.")
        now = run_sql.now(alias)
        first = instant(start, "start") if start is not None else now
        if until is not None:
            return cls(first, instant(until, "until"), None)
        if days is not None or not open:
            return cls(first, first + (A_WEEK if days is None else timedelta(days=days)), None)
        return cls(first, None, first + A_WEEK if limit is None else None)

    def of_rows(self, rows: ScheduleQuerySet) -> ScheduleQuerySet:
        return rows if self.last is None else rows.filter(due_at__lt=self.last)

    def of_row(self, row: Schedule) -> Iterator[Upcoming]:
        """The occurrences of one schedule in the span; an overdue one is still to come."""
        for number, one in enumerate(_occurrences(row, self.first)):
            bound = self.last if number == 0 else self.last or self.repeats_until
            if bound is not None and one.at >= bound:
                return
            yield one


def _occurrences(row: Schedule, first: datetime) -> Iterator[Upcoming]:
    """All occurrences of a schedule from a moment on; may never end."""
    assert row.due_at is not None
    if row.due_at >= first or clock.now() >= first:
        yield _one(row, row.due_at, row.occurrence, row.local_time, row.marks)
    intent = read_intent(row.intent)
    if intent.table.rule.single:
        return
    since = max(clock.now(), row.due_at + timedelta.resolution)
    if row.remaining is None:  # otherwise those before the span use it up
        since = max(since, first)
    following = occurrences(unlimited(intent.table), since - timedelta.resolution, seed=row.key)
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
        about=Aggregate(row.aggregate_type, row.aggregate_id) if row.aggregate_type else None,
        plan=row.plan,
    )
