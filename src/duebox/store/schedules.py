"""Schedules as rows: due ones, the next occurrence, the schedule log; and PostgreSQL's own zone database, for
comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import models

from duebox import clock
from duebox.events.after_commit import schedules_written
from duebox.events.fact import FactRow
from duebox.store.run_sql import execute, migrated, number_array, run, text_array

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
    """What of a wanted schedule of a plan is compared with the one that is stored under its key."""

    key: str
    intent: str
    zone_rules: str
    type: str
    version: int
    aggregate_id: str
    organization: str
    actor: str | None
    """None keeps the stored actor."""
    data: str
    metadata: str


class ScheduleLogLine(NamedTuple):
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
    """Lock due schedules, those from `floor` on if it is set. Call it in the transaction that fires them."""
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


MOST_IN_SPAN = 1_000


def histogram(using: str, bounds: Sequence[datetime]) -> list[tuple[int, bool]]:
    """How many schedules fire between each bound and the next, and whether more do than were counted."""
    starts, ends = list(bounds[:-1]), list(bounds[1:])
    rows = run("schedule_histogram", using, {"starts": starts, "ends": ends, "most": MOST_IN_SPAN + 1})
    return [(min(count, MOST_IN_SPAN), count > MOST_IN_SPAN) for _, count in rows]


def count_before(using: str, moment: datetime, most: int) -> int:
    """How many schedules fire before a moment, counted up to `most`."""
    found = rows(using).scheduled().filter(due_at__lt=moment).order_by("due_at", "id")
    return int(found.values("id")[:most].count())


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


class Fired(NamedTuple):
    """What became of schedules that were to fire."""

    deliveries: list[FiredDelivery]
    left: set[int]
    """The ids of those that were skipped, because they or their rows have changed meanwhile."""


def fire(
    using: str,
    steps: Sequence[NextStep],
    facts: Sequence[tuple[int, FactRow]],
    routes: Sequence[Route],
    *,
    lease: int = 0,
    now: datetime | None = None,
    follows: Sequence[tuple[str, str]] | None = None,
    refreshed: Iterable[int] = (),
) -> Fired:
    """Advance schedules and store the facts they make, each with the id of its schedule. With `follows`, schedules of
    plans do not fire while their row has a change that is not planned yet, or a row that their plan follows: pairs of a
    plan and the type of such rows. Those in `refreshed` were planned again in this transaction."""
    params = {f"step_{name}": array for name, array in _columns(steps).items()}
    params |= _columns([row for _, row in facts], FactRow)
    params |= {f"route_{name}": array for name, array in _columns(routes, Route).items()}
    params["source"] = number_array(source for source, _ in facts)
    params["follow_plan"] = text_array(plan for plan, _ in follows or ())
    params["follow_source"] = text_array(source for _, source in follows or ())
    params["refreshed"] = number_array(refreshed)
    fired = run("schedule_fire", using, {**params, "lease": lease, "now": now, "look": follows is not None})
    schedules_written(using, "id", (step.id for step in steps))
    left = {row[1] for row in fired if row[0] is None}
    return Fired([FiredDelivery(*row) for row in fired if row[0] is not None], left)


def advance(using: str, steps: Sequence[NextStep], *, now: datetime | None = None) -> set[int]:
    """Returns the ids that were written; the others were changed by another transaction meanwhile."""
    params = {**_columns(steps), "now": now, "near": _near()}
    written = {row[0] for row in run("schedule_advance", using, params)}
    schedules_written(using, "id", written)
    return written


def opt_out(using: str, ids: Sequence[int], how: str) -> None:
    """Store in locked schedules that a person cancelled them, or remove that with ""; live ones are cancelled."""
    if ids:
        execute("schedule_opt_out", using, {"id": number_array(ids), "opt_out": how, "now": None})
        schedules_written(using, "id", ids)


def write(using: str, rows: Sequence[ScheduleRow], *, now: datetime | None = None) -> None:
    """Insert or replace by key."""
    run("schedule_write", using, {**_columns(rows), "now": now, "near": _near()})
    schedules_written(using, "key", (row.key for row in rows))


def differing(
    using: str, plan: str, aggregate_type: str, aggregate_ids: Iterable[str], wanted: Sequence[Compared]
) -> tuple[list[int], set[str]]:
    """The ids of the schedules that a plan has for these rows and that are not stored as they are wanted, live, and
    derived from the rules of their zone as they are now; and the keys of those that are wanted and not stored so.
    Nothing is locked."""
    of_plan = {"plan": plan, "of_type": aggregate_type, "of_ids": text_array(aggregate_ids)}
    found = run("schedule_differing", using, {**_columns(wanted, Compared), **of_plan})
    return [id for id, _ in found if id is not None], {key for _, key in found if key is not None}


def write_log(using: str, lines: Sequence[ScheduleLogLine], *, now: datetime | None = None) -> None:
    if lines:
        execute("schedule_log_add", using, {**_columns(lines), "now": now})


def _near() -> float:
    """A sleeping worker is notified of schedules that are due within so many seconds; it sleeps half as long at
    most."""
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


class ZoneProbe(NamedTuple):
    """The UTC offset in seconds that a zone should have at an instant."""

    zone: str
    at: datetime
    seconds: int


def disagreements(using: str, probes: Sequence[ZoneProbe]) -> list[str]:
    """The zones for which PostgreSQL has another offset; those that it does not know are not among them.

    Not for names like CET: where one is also an abbreviation, PostgreSQL reads it as that.
    """
    params = {
        "zone": text_array(probe.zone for probe in probes),
        "at": text_array(probe.at.isoformat() for probe in probes),
        "seconds": number_array(probe.seconds for probe in probes),
    }
    return [row[0] for row in run("zone_disagreements", using, params)]
