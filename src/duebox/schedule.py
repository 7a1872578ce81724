"""Moments: say once when something is to happen, in whose time, and it happens then, once.

Everything here is written on the caller's own connection, in the caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.db import connections, transaction

from duebox import clock
from duebox.context import handling
from duebox.emit import About, New, aggregate_of, fact_row, ready_settings, refuse_unroutable
from duebox.exceptions import InvalidSchedule
from duebox.ids import uuid7
from duebox.intent import Intent, read_intent
from duebox.planner import Change, Wanted, cancel_all, event_of, lock, plan_all, put_to_rest, wake, write_all
from duebox.store import schedules
from duebox.when import CatchUp, Late, Moment, Once, Rule, Timetable, once
from duebox.when.policy import choose
from duebox.when.times import write

if TYPE_CHECKING:
    from duebox.models import Schedule

KEY_LIMIT = 400
Repeat = Rule | Timetable


def schedule(
    type: str | object,
    data: Mapping[str, Any] | None = None,
    *,
    at: datetime | None = None,
    repeat: Repeat | None = None,
    zone: str | None = None,
    about: About = None,
    organization: object = None,
    key: str | None = None,
    actor: object = None,
    version: int | None = None,
    correlation_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    catch_up: CatchUp | None = None,
    late: Late | str = Late.FIRE_NOW,
    using: str | None = None,
) -> Schedule:
    """Emit an event later: once `at` a time, or again and again by `repeat`.

    A naive `at` is read on the wall clock of `zone` (by default the project's TIME_ZONE), an aware one is that
    instant. `repeat` takes a rule such as `when.daily("09:00")`, or a whole `when.Timetable` with policies for
    clock changes, bounds and closed days; `at` is then the first time it may fire. The same `key` again replaces the
    intention; what fired already stays fired.
    """
    settings = ready_settings()
    intent = Intent(table=_table(at, repeat, zone), catch_up=_policy(catch_up), late=choose(Late, late))
    new = New(
        type=type, data=data, about=about, organization=organization, actor=actor, version=version,
        correlation_id=correlation_id, metadata=metadata,
    )  # fmt: skip
    event = fact_row(new, settings, to_come=True)
    refuse_unroutable(event.type, event.aggregate_type)
    if metadata and "schedule" in metadata:
        raise InvalidSchedule("metadata['schedule'] is where the event says what it was due for; use another name.")
    wanted = Wanted(_checked_key(key if key is not None else f"{event.type}:{uuid7()}"), event, intent)
    alias = using or alias_in_use()
    with _one_transaction(alias):
        [change] = plan_all([wanted], lock(alias, [wanted.key]), clock.now())
        _refuse_the_past(change)
        write_all(alias, [change], why="scheduled again")
    return schedules.rows(alias).get(key=wanted.key)


def reschedule(
    key: str | None = None,
    *,
    about: About = None,
    at: datetime | None = None,
    repeat: Repeat | None = None,
    zone: str | None = None,
    using: str | None = None,
) -> int:
    """Give a schedule, or all live ones of an entity, another time, rule or zone; says how many there were.

    Only what is named changes, policies and bounds stay; of one that repeats `at` is the first time it may fire again.
    Nothing that lies in the past fires by it.
    """
    if at is None and repeat is None and zone is None:
        raise InvalidSchedule("reschedule() changes nothing; pass at=, repeat= or zone=.")
    alias = using or alias_in_use()
    with _one_transaction(alias):
        rows = _live(alias, key, about)
        if key is not None and not rows:
            raise InvalidSchedule(f"No live schedule has the key {key!r}; create it with duebox.schedule(key=...).")
        wanted = [_moved(row, at, repeat, zone) for row in rows]
        changes = plan_all(wanted, {row.key: row for row in rows}, clock.now())
        for change in changes if at is not None or repeat is not None else ():
            _refuse_the_past(change)
        write_all(alias, changes, why="rescheduled")
    return len(rows)


def cancel(key: str | None = None, *, about: About = None, using: str | None = None) -> int:
    """Take back a schedule by its key, or all of an entity; says how many there were."""
    alias = using or alias_in_use()
    with _one_transaction(alias):
        return cancel_all(alias, _live(alias, key, about))


def pause(key: str | None = None, *, about: About = None, using: str | None = None) -> int:
    """Let a schedule, or all of an entity, rest until `resume`; says how many went to rest."""
    alias = using or alias_in_use()
    with _one_transaction(alias):
        rows = [row for row in _live(alias, key, about) if row.status == "scheduled"]
        return put_to_rest(alias, rows, "paused", "paused")


def resume(key: str | None = None, *, about: About = None, using: str | None = None) -> int:
    """Wake what was paused; what would have fired meanwhile does not fire any more. Says how many woke."""
    alias = using or alias_in_use()
    with _one_transaction(alias):
        rows = [row for row in _live(alias, key, about) if row.status == "paused"]
        return wake(alias, rows, clock.now())


def alias_in_use() -> str:
    """The database that the handler around us is serving, or the configured one."""
    current = handling.get()
    return current.using if current else ready_settings().DATABASE


def project_zone() -> str:
    """The zone of whatever names none."""
    return django_settings.TIME_ZONE


@contextmanager
def _one_transaction(alias: str) -> Iterator[None]:
    """The caller's, or one of its own. The caller's survives a refusal, before which nothing is written."""
    with nullcontext() if connections[alias].in_atomic_block else transaction.atomic(using=alias):
        yield


def _table(at: datetime | None, repeat: Repeat | None, zone: str | None) -> Timetable:
    if isinstance(repeat, Timetable):
        table = repeat if zone is None else replace(repeat, zone=zone)
        return table if at is None else replace(table, start=at)
    if repeat is not None:
        return Timetable(rule=repeat, zone=zone or project_zone(), start=at)
    if at is None:
        raise InvalidSchedule("schedule() needs a time; pass at=datetime(...) or repeat=when.daily('09:00').")
    return Timetable(rule=once(at), zone=zone or project_zone())


def _moved(row: Schedule, at: datetime | None, repeat: Repeat | None, zone: str | None) -> Wanted:
    intent = read_intent(row.intent)
    table = replace(intent.table, zone=zone or intent.table.zone)
    if isinstance(repeat, Timetable):
        table = _table(at, repeat, zone)
    elif at is not None and repeat is None and table.rule.single:
        table = replace(table, rule=once(at))
    elif at is not None or repeat is not None:
        table = replace(table, rule=repeat or table.rule, start=at or table.start, remaining=row.remaining)
    return Wanted(row.key, event_of(row), replace(intent, table=table), row.plan)


def _live(alias: str, key: str | None, about: About) -> list[Schedule]:
    if (key is None) == (about is None):
        raise InvalidSchedule("Say which: pass a key, or about=..., and not both.")
    if key is not None and not isinstance(key, str):
        raise InvalidSchedule(f"key={key!r} is not text; to mean all schedules of an entity pass about=...")
    rows = schedules.rows(alias).filter(status__in=["scheduled", "paused"])
    return schedules.locked(rows.filter(key=key) if key is not None else rows.about(*aggregate_of(about)))


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_LIMIT or not key.isprintable():
        raise InvalidSchedule(f"key={str(key)[:80]!r} must be 1 to {KEY_LIMIT} printable characters.")
    return key


def _policy(catch_up: CatchUp | None) -> CatchUp:
    if catch_up is None:
        return CatchUp()
    if not isinstance(catch_up, CatchUp):
        raise InvalidSchedule(f"catch_up={catch_up!r} is not a policy; pass when.CatchUp(mode='all') or the like.")
    return catch_up


def _refuse_the_past(change: Change) -> None:
    """An intention that names nothing to come is a mistake; what it would replace stays as it is."""
    table, before = change.wanted.intent.table, change.before
    if table.remaining == 0:
        raise InvalidSchedule("remaining=0 leaves nothing to fire; give 1 or more, or cancel() the schedule.")
    if change.planned is None or change.planned.next is not None:
        return
    match table.rule:
        case Once(at=at):
            when = f"{write(at)} {table.zone}"
        case Moment(at=at):
            when = write(at)
        case _:
            when = "This timetable"
    if before is not None and before.fired:
        raise InvalidSchedule(f"{when} fired already, or lies in the past; give another time, or another key.")
    now = write(clock.now())
    raise InvalidSchedule(f"{when} has no occurrence after now ({now}); give a later time, or emit() the event.")
