"""Lists of events, schedules, audit entries and log lines: newest first, in pages with a cursor.

Every page costs the same. If no index serves a filter, only the newest `WINDOW` rows after the cursor are read, and the
page has the cursor to continue from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from duebox.conf import conf
from duebox.models import AuditEntry, Delivery, Event, Schedule, ScheduleLog
from duebox.models.audit import AuditQuerySet
from duebox.models.schedule import ScheduleQuerySet
from duebox.store.replay import first_id
from duebox.store.run_sql import migrated

T = TypeVar("T")
LIMIT = 50
WINDOW = 20_000
MOST_DELIVERIES = 2_000
"""The maximum number of deliveries of a status that are read to find schedules whose last event failed or is
processed."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    rows: Sequence[T]
    older: str | None = None
    """The cursor of the next page; None if there is none."""
    looked: int | None = None
    """The number of rows that were read, if that was not all of them."""


class BadCursor(ValueError):
    """The text is not a valid cursor."""


def id_cursor(text: str) -> int | None:
    """The cursor of a list that is ordered by ids; None for the first page."""
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,18}", text):
        raise BadCursor(f"{text[:40]!r} is not the cursor of a page.")
    return int(text)


def uuid_cursor(text: str) -> UUID | None:
    """The cursor of a list of events; None for the first page."""
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise BadCursor(f"{text[:40]!r} is not the cursor of a page.") from error


def due_cursor(text: str) -> tuple[datetime, int] | None:
    """The cursor of a list that is ordered by due times: the time and the id of the last schedule of the previous
    page."""
    if not text:
        return None
    moment, _, number = text.rpartition("~")
    try:
        due, id = datetime.fromisoformat(moment), id_cursor(number)
        if due.tzinfo is None or id is None:
            raise BadCursor(f"{text[:40]!r} is not the cursor of a page.")
        due = due.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadCursor(f"{text[:40]!r} is not the cursor of a page.") from error
    return due, id


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilters:
    """Filters of events; keys that are left out match all."""

    type: str = ""
    """A type, or a pattern as in `order.*`."""
    about: str = ""
    """An entity as in `order:42`."""
    correlation_id: str = ""
    organization: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def have_index(self) -> bool:
        return bool(self.about or self.correlation_id)

    @property
    def need_looking(self) -> bool:
        return bool(self.type or self.organization)


def events(
    filters: EventFilters | None = None, *, before: UUID | None = None, limit: int = LIMIT, using: str | None = None
) -> Page[Event]:
    """Events that match, the newest first. Their ids grow with the time at which they are made."""
    alias, asked = using or conf().DATABASE, filters or EventFilters()
    rows = Event.objects.using(alias).order_by("-id").defer("data")
    if asked.since:
        rows = rows.filter(id__gte=first_id(asked.since))
    if asked.until:
        rows = rows.filter(id__lt=first_id(asked.until))
    if before:
        rows = rows.filter(id__lt=before)
    if asked.about:
        kind, _, id = asked.about.partition(":")
        rows = rows.filter(aggregate_type=kind, aggregate_id=id)
    if asked.correlation_id:
        rows = rows.filter(correlation_id=asked.correlation_id)
    with migrated(alias):
        found = _matching_type(rows, asked)
        if asked.need_looking and not asked.have_index:
            return _within_window(rows, found, limit)
        return _page(found, limit)


def _matching_type(rows: QuerySet[Event], asked: EventFilters) -> QuerySet[Event]:
    if asked.organization:
        rows = rows.filter(organization=asked.organization)
    if not asked.type:
        return rows
    start, star, end = asked.type.partition("*")
    return rows.filter(type__startswith=start, type__endswith=end) if star else rows.filter(type=asked.type)


def open_states(found: Iterable[Event], *, using: str | None = None) -> dict[UUID, Counter[str]]:
    """By event, how many of its deliveries are in which state. One without any was delivered, or had no receiver."""
    states: dict[UUID, Counter[str]] = {}
    rows = Delivery.objects.using(using or conf().DATABASE).with_state()
    for row in rows.filter(event_id__in=[each.id for each in found]):
        states.setdefault(row.event_id, Counter())[str(getattr(row, "state", row.status))] += 1
    return states


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilters:
    state: str = "scheduled"
    type: str = ""
    about: str = ""
    plan: str = ""
    key: str = ""
    """The beginning of the key."""
    include_internal: bool = False


def schedules(
    filters: ScheduleFilters | None = None, *, after: str = "", limit: int = LIMIT, using: str | None = None
) -> Page[Schedule]:
    """Scheduled schedules ordered by their due times, others newest first. With `state` and `last_state`."""
    alias, asked = using or conf().DATABASE, filters or ScheduleFilters()
    rows = Schedule.objects.using(alias).all()
    with migrated(alias):
        if asked.state == "scheduled":
            return _in_order_of_time(rows.scheduled(), asked, after, limit)
        rows = rows.order_by("-id")
        if (before := id_cursor(after)) is not None:
            rows = rows.filter(id__lt=before)
        if asked.state in ("failed", "processing"):
            return _page(_matching_schedules(_by_last_event(rows, asked.state, alias), asked), limit)
        found = _matching_schedules(rows.in_state(asked.state), asked)
        if asked.about:
            return _page(found, limit)
        return _within_window(rows, found, limit)


def _by_last_event(rows: ScheduleQuerySet, state: str, alias: str) -> ScheduleQuerySet:
    """Schedules whose last event failed or is being processed, found from the newest deliveries of each status."""
    deliveries = Delivery.objects.using(alias).order_by("-id").values("event_id")
    first, second = (
        deliveries.filter(status=status)[:MOST_DELIVERIES]
        for status in (("dead", "parked") if state == "failed" else ("pending", "waiting"))
    )
    fired = Event.objects.using(alias).filter(id__in=first.union(second, all=True), metadata__has_key="schedule")
    keys = list(fired.values_list(KT("metadata__schedule__key"), flat=True))
    which = Q(status="completed", key__in=keys)
    return rows.with_state().filter(which | Q(status="failed") if state == "failed" else which, Q(("state", state)))


def _in_order_of_time(rows: ScheduleQuerySet, asked: ScheduleFilters, after: str, limit: int) -> Page[Schedule]:
    rows = rows.order_by("due_at", "id")
    if last_seen := due_cursor(after):
        due, id = last_seen
        rows = rows.filter(Q(due_at__gt=due) | Q(due_at=due, id__gt=id), due_at__gte=due)
    bound = None if asked.about else rows.values_list("due_at", "id")[WINDOW : WINDOW + 1].first()
    found = _matching_schedules(rows, asked)
    if bound:
        found = found.filter(due_at__lte=bound[0])
    shown = list(found.with_state()[: limit + 1])
    if len(shown) > limit:
        last = shown[limit - 1]
        return Page(shown[:limit], f"{last.due_at.isoformat()}~{last.id}" if last.due_at else None)
    return Page(shown, f"{bound[0].isoformat()}~{bound[1]}", WINDOW) if bound and bound[0] else Page(shown)


def _matching_schedules(rows: ScheduleQuerySet, asked: ScheduleFilters) -> ScheduleQuerySet:
    given = {"type": asked.type, "plan": asked.plan, "key__startswith": asked.key}
    rows = rows.filter(**{name: value for name, value in given.items() if value})
    if asked.about:
        kind, _, id = asked.about.partition(":")
        rows = rows.about(kind, id or None)
    return rows if asked.include_internal or any(given.values()) else rows.of_project()


def entries(found: AuditQuerySet, *, before: int | None = None, limit: int = LIMIT) -> Page[AuditEntry]:
    """Entries of the audit log that match, the newest first."""
    rows = found.order_by("-id")
    return _page(rows.filter(id__lt=before) if before else rows, limit)


def schedule_log(
    what: str = "", *, before: int | None = None, limit: int = LIMIT, using: str | None = None
) -> Page[ScheduleLog]:
    """Lines of the schedule log, newest first; with `what` those of one kind."""
    alias = using or conf().DATABASE
    rows = ScheduleLog.objects.using(alias).order_by("-id")
    if before:
        rows = rows.filter(id__lt=before)
    with migrated(alias):
        return _within_window(rows, rows.filter(what=what), limit) if what else _page(rows, limit)


def causes(found: Sequence[Event]) -> list[tuple[Event, int]]:
    """Events of one correlation id, each followed by the events that it caused, with its depth in that tree."""
    effects: dict[UUID | None, list[Event]] = {}
    ids = {each.id for each in found}
    for each in sorted(found, key=lambda event: event.id, reverse=True):
        cause = each.causation_id if each.causation_id in ids and each.causation_id != each.id else None
        effects.setdefault(cause, []).append(each)
    rows: list[tuple[Event, int]] = []
    left = [(each, 0) for each in effects.get(None, [])]
    while left:
        event, depth = left.pop()
        rows.append((event, depth))
        left += [(each, depth + 1) for each in effects.get(event.id, [])]
    return rows


def _page(found: Any, limit: int) -> Page[Any]:
    shown = list(found[: limit + 1])
    return Page(shown[:limit], str(shown[limit - 1].pk) if len(shown) > limit else None)


def _within_window(rows: Any, found: Any, limit: int) -> Page[Any]:
    """Limited to the newest rows, which are compared one by one."""
    bound = rows.values_list("pk", flat=True)[WINDOW : WINDOW + 1].first()
    page = _page(found.filter(pk__gte=bound) if bound else found, limit)
    return page if page.older or not bound else Page(page.rows, str(bound), WINDOW)
