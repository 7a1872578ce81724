"""Schedules as rows: what is due, what comes next, and the trail of what did not go as planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from django.db import models

from duebox import clock
from duebox.fact import FactRow
from duebox.store.statements import execute, migrated, number_array, run, text_array

if TYPE_CHECKING:
    from duebox.models.schedule import Schedule, ScheduleQuerySet

Found = TypeVar("Found")


class DueSchedule(NamedTuple):
    """The columns that firing needs, in the order of `schedule_due.sql`."""

    id: int
    key: str
    plan: str
    due_at: datetime
    occurrence: str
    local_time: str
    marks: str
    fired: str
    remaining: int | None
    revision: int
    zone: str
    zone_rules: str
    tz_release: str
    intent: str
    type: str
    version: int
    aggregate_type: str
    aggregate_id: str
    organization: str
    correlation_id: str
    actor: str | None
    data: str
    metadata: str


class NextStep(NamedTuple):
    """What comes next for one row; `fired` is the last occurrence that fired now, if one did."""

    id: int
    revision: int
    status: str
    due_at: datetime | None
    occurrence: str
    local_time: str
    marks: str
    fired: str | None
    remaining: int | None
    zone_rules: str
    tz_release: str


class ScheduleRow(NamedTuple):
    """A whole schedule to be stored under its key."""

    key: str
    plan: str
    status: str
    due_at: datetime | None
    occurrence: str
    local_time: str
    marks: str
    remaining: int | None
    zone: str
    zone_rules: str
    tz_release: str
    intent: str
    type: str
    version: int
    aggregate_type: str
    aggregate_id: str
    organization: str
    correlation_id: str
    actor: str | None
    data: str
    metadata: str


class Compared(NamedTuple):
    """What of a wanted schedule is compared with the one that is stored under its key."""

    key: str
    plan: str
    intent: str
    zone_rules: str
    type: str
    version: int
    aggregate_type: str
    aggregate_id: str
    organization: str
    data: str
    metadata: str


class TrailLine(NamedTuple):
    """Something that did not go as planned, or that a sweep did."""

    what: str
    source: str
    occurrence: str = ""
    aggregate_type: str = ""
    aggregate_id: str = ""
    due_before: datetime | None = None
    due_after: datetime | None = None
    run: str = ""
    event_id: str | None = None
    note: str = ""
    occurrences: int = 1
    last_occurrence: str = ""


NEAR_SECONDS = 60.0
SCHEDULES = "schedules"
"""What a NOTIFY says that is sent for a schedule."""
DUE_NOW = ""
"""One for deliveries that are due says nothing. Those that are due one after the other, as after a retry with a rate,
send another word, so that a worker looks when the next of them is due."""
Name = tuple[Literal["key", "id"], str]
watchers: list[Callable[[str, list[Name]], None]] = []
"""Called with the database and the names of schedules that were written, inside of the transaction if there is one."""
_NUMBERS = {"revision", "remaining", "version", "occurred", "mine", "occurrences"}
_MOMENTS = {"due_at", "due_before", "due_after"}


def rows(using: str) -> ScheduleQuerySet:
    """All schedules of a database."""
    from duebox.models import Schedule  # here: `import duebox` comes before Django knows its apps

    return Schedule.objects.using(using)


def locked(found: ScheduleQuerySet) -> list[Schedule]:
    """Held until the transaction ends, taken in the order of their keys, so that two callers do not deadlock."""
    return listed(found.select_for_update().order_by("key"))


def listed(found: models.QuerySet[Any, Found]) -> list[Found]:
    """What a query on Duebox's own tables finds, or the error that names the migrate command."""
    with migrated(found.db):
        return list(found)


class Due(NamedTuple):
    """Schedules that are due, and the time on the database's clock by which they are."""

    rows: list[DueSchedule]
    moment: datetime


def due(using: str, limit: int, *, floor: datetime | None = None, now: datetime | None = None) -> Due:
    """What is due, from the floor on if there is one, locked: call it inside the transaction that fires."""
    found = run("schedule_due", using, {"limit": limit, "floor": floor, "now": now})
    return Due([DueSchedule(*row[:-1]) for row in found], found[0][-1] if found else clock.now())


def ahead(
    using: str, limit: int, *, seconds: float, before: float = 0.0, after: DueSchedule | None = None
) -> list[DueSchedule]:
    """What comes due within so many seconds, or came due within the last seconds `before`; with `after`, those that
    follow that one. Nothing is locked."""
    params = {"limit": limit, "seconds": seconds, "before": before}
    place = {"after": after and after.due_at, "after_id": after and after.id}
    return [DueSchedule(*row) for row in run("schedule_ahead", using, {**params, **place})]


class Route(NamedTuple):
    """A delivery that an event gets; `mine` if the worker that fires can run it at once."""

    event: str
    subscriber: str
    stream: str | None
    mine: bool


class FiredDelivery(NamedTuple):
    """An event that was stored, with one delivery of it, if it has any."""

    event: str
    id: int | None
    subscriber: str | None
    due: float | None
    lease: int | None


def fire(
    using: str,
    steps: Sequence[NextStep],
    facts: Sequence[tuple[int, FactRow]],
    routes: Sequence[Route],
    *,
    lease: int = 0,
    now: datetime | None = None,
    follows: Sequence[tuple[str, str]] | None = None,
) -> list[FiredDelivery]:
    """Advance schedules and store the facts they make, each with the id of its schedule. With `follows`, schedules of
    plans do not fire while their row has a change that is not planned yet, or a row that their plan follows: pairs of a
    plan and the type of such rows."""
    params = {f"step_{name}": array for name, array in _columns(steps).items()}
    params |= _columns([row for _, row in facts], FactRow)
    params |= {f"route_{name}": array for name, array in _columns(routes, Route).items()}
    params["source"] = number_array(source for source, _ in facts)
    params["follow_plan"] = text_array(plan for plan, _ in follows or ())
    params["follow_source"] = text_array(source for _, source in follows or ())
    fired = run("schedule_fire", using, {**params, "lease": lease, "now": now, "look": follows is not None})
    _tell_watchers(using, "id", (step.id for step in steps))
    return [FiredDelivery(*row) for row in fired]


def advance(using: str, steps: Sequence[NextStep], *, now: datetime | None = None) -> set[int]:
    """The ids that were written; the others were changed by somebody else meanwhile."""
    params = {**_columns(steps), "now": now, "near": _near()}
    written = {row[0] for row in run("schedule_advance", using, params)}
    _tell_watchers(using, "id", written)
    return written


def opt_out(using: str, ids: Sequence[int], how: str) -> None:
    """Note in locked schedules that somebody cancelled them, or with "" that nobody did; live ones are cancelled."""
    if ids:
        execute("schedule_opt_out", using, {"id": number_array(ids), "opt_out": how, "now": None})
        _tell_watchers(using, "id", ids)


def write(using: str, rows: Sequence[ScheduleRow], *, now: datetime | None = None) -> None:
    """Insert or replace by key."""
    run("schedule_write", using, {**_columns(rows), "now": now, "near": _near()})
    _tell_watchers(using, "key", (row.key for row in rows))


def unchanged(using: str, wanted: Sequence[Compared]) -> set[str]:
    """The keys of those that are stored as they are wanted, live, and derived from the rules of their zone as they
    are now. None of them is locked."""
    return {row[0] for row in run("schedule_unchanged", using, _columns(wanted))} if wanted else set()


def tell(using: str, lines: Sequence[TrailLine], *, now: datetime | None = None) -> None:
    if lines:
        execute("trail_add", using, {**_columns(lines), "now": now})


def _tell_watchers(using: str, kind: Literal["key", "id"], names: Iterable[object]) -> None:
    if watchers:
        told: list[Name] = [(kind, str(name)) for name in names]
        for watcher in watchers:
            watcher(using, told)


def _near() -> float:
    """Within so many seconds a sleeping worker must be told; it sleeps half as long at most."""
    return NEAR_SECONDS / clock.real_seconds(1.0)


def _columns(rows: Sequence[Any], kind: Any = None) -> dict[str, str]:
    fields = (kind or type(rows[0]))._fields
    columns = zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True)
    return {name: _array(name, values) for name, values in columns}


def _array(name: str, values: Sequence[Any]) -> str:
    if name in _NUMBERS or (name == "id" and isinstance(values[0] if values else None, int)):
        return number_array("NULL" if value is None else value for value in values)
    if name in _MOMENTS:
        return text_array(None if value is None else value.isoformat() for value in values)
    return text_array(values)
