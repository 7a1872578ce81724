"""Create, change, cancel, pause and resume schedules.

All functions write in the transaction of the caller, on its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, Union
from zoneinfo import ZoneInfo

from django.conf import settings as django_settings
from django.db import connections, models, transaction
from django.db.models import Q

from duebox import clock
from duebox.context.current import asked_by as asked_by
from duebox.context.current import handling, names_async_form
from duebox.events.emit import NewEvent, check_transaction, fact_row, ready_settings, refuse_unroutable
from duebox.events.identities import About, aggregate_of, aggregate_type, uuid7
from duebox.events.outcomes import LONGEST
from duebox.exceptions import InvalidSchedule
from duebox.schedules.intent import Intent, read_intent
from duebox.schedules.planner import (
    Change,
    Ready,
    Wanted,
    event_of,
    lock,
    opt_out,
    plan_all,
    put_to_rest,
    wake,
    write_all,
    write_past,
)
from duebox.store import run_sql, schedules
from duebox.when import CatchUp, Late, Moment, Once, Rule, Timetable, WrongKindOfTime, once
from duebox.when.policy import choose
from duebox.when.times import write
from duebox.when.zones import name_of

if TYPE_CHECKING:
    from duebox.models import Schedule
    from duebox.models.schedule import ScheduleQuerySet

KEY_LIMIT = 400
Repeat = Rule | Timetable
OnPast = Literal["error", "ignore"]
Key = Union[str, "Schedule"]
"""The key of a schedule, or the schedule itself."""
Entities = About | type[models.Model]
"""An entity, or all entities of a type: a model class, or a pair such as ("workflow", None)."""


@names_async_form
def schedule(
    type: str | object,
    data: Mapping[str, Any] | None = None,
    *,
    at: datetime | None = None,
    after: timedelta | None = None,
    repeat: Repeat | None = None,
    zone: str | ZoneInfo | None = None,
    about: About = None,
    organization: object = None,
    key: str | None = None,
    actor: object = None,
    version: int | None = None,
    correlation_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    expires: datetime | timedelta | None = None,
    catch_up: CatchUp | None = None,
    late: Late | str = Late.FIRE_NOW,
    on_past: OnPast = "error",
    using: str | None = None,
) -> Schedule:
    """Emit an event later: once `at` a time, once `after` a timedelta from now, or repeatedly by `repeat`.

    A naive `at` is read on the wall clock of `zone` (by default the project's TIME_ZONE), an aware one is that instant.
    `repeat` takes a rule such as `when.daily("09:00")`, or a whole `when.Timetable` with policies for clock changes,
    bounds and closed days; `at` is then the first time it may fire. A call with the same `key` replaces the schedule;
    an occurrence that has fired does not fire again.

    With `expires`, a timedelta after each due moment or one fixed moment, a delivery that has not started by then is
    not run.

    A time that has fired, or is past, is an error. Code that runs at each deploy passes `on_past="ignore"`: then
    nothing is changed.
    """
    settings = ready_settings()
    _check_on_past(on_past, key)
    alias = using or alias_in_use()
    at = _moment(at, after, repeat, alias)
    intent = Intent(table=_table(at, repeat, zone), catch_up=_policy(catch_up), late=choose(Late, late))
    new = NewEvent(
        type=type, data=data, about=about, organization=organization, actor=actor, version=version,
        correlation_id=correlation_id, metadata=metadata, expires=expires,
    )  # fmt: skip
    event = fact_row(new, settings, to_come=True)
    refuse_unroutable(event.type, event.aggregate_type)
    if metadata and "schedule" in metadata:
        raise InvalidSchedule("metadata['schedule'] is where the event says what it was due for; use another name.")
    check_transaction("schedule", [new], alias, settings)
    name = _checked_key(key if key is not None else f"{event.type}:{uuid7()}")
    wanted = Wanted(name, event, intent, names_actor=actor is not None)
    with one_transaction(alias):
        before = lock(alias, [wanted.key])
        _refuse_another_type(wanted, before.get(wanted.key))
        [change] = plan_all([wanted], before, run_sql.now(alias))
        if on_past == "ignore" and _is_past(change):
            write_past(alias, change)
        else:
            _refuse_the_past(change)
            write_all(alias, Ready.of([change], why="scheduled again"))
    return schedules.rows(alias).get(key=wanted.key)


@names_async_form
def reschedule(
    key: Key | None = None,
    *,
    about: Entities = None,
    at: datetime | None = None,
    after: timedelta | None = None,
    repeat: Repeat | None = None,
    zone: str | ZoneInfo | None = None,
    using: str | None = None,
) -> int:
    """Give a schedule, or all live ones of an entity, another time, rule or zone. Returns how many were changed.

    Arguments that are left out do not change. For a schedule that repeats, `at` is the first time it may fire again.
    Occurrences in the past do not fire.
    """
    alias = using or alias_in_use()
    at = _moment(at, after, repeat, alias)
    if at is None and repeat is None and zone is None:
        raise InvalidSchedule("reschedule() changes nothing; pass at=, after=, repeat= or zone=.")
    with one_transaction(alias):
        rows = _live(alias, key, about)
        if key is not None and not rows:
            raise InvalidSchedule(
                f"No live schedule has the key {key_of(key)!r}; create it with duebox.schedule(key=...)."
            )
        wanted = [_moved(row, at, repeat, zone) for row in rows]
        changes = plan_all(wanted, {row.key: row for row in rows}, run_sql.now(alias))
        for change in changes if at is not None or repeat is not None else ():
            _refuse_the_past(change)
        write_all(alias, Ready.of(changes, why="rescheduled"))
    return len(rows)


@names_async_form
def cancel(key: Key | None = None, *, about: Entities = None, using: str | None = None) -> int:
    """Cancel a schedule by its key, or all of an entity. Returns how many were cancelled.

    They stay cancelled until `restore`, or until `schedule` is called with the same key: no save, sync or reconcile of
    a plan brings them back.
    """
    alias = using or alias_in_use()
    with one_transaction(alias):
        if key is not None:
            return opt_out(alias, _live(alias, key, about), "key", why=asked_by())
        rows = chosen(alias, key, about).filter(Q(status__in=["scheduled", "paused"]) | Q(opt_out="") & ~Q(plan=""))
        # Twice: while the first look waits for a save that is under way, that save may plan what was not there before.
        return sum(opt_out(alias, _locked(rows), "entity", why=asked_by()) for _ in range(2))


@names_async_form
def pause(key: Key | None = None, *, about: Entities = None, using: str | None = None) -> int:
    """Pause a schedule, or all of an entity, until `resume`. Returns how many were paused."""
    alias = using or alias_in_use()
    with one_transaction(alias):
        rows = [row for row in _live(alias, key, about) if row.status == "scheduled"]
        return put_to_rest(alias, rows, "paused", "paused", asked_by())


@names_async_form
def resume(key: Key | None = None, *, about: Entities = None, using: str | None = None) -> int:
    """Resume paused schedules. Occurrences that were due meanwhile do not fire. Returns how many were resumed."""
    alias = using or alias_in_use()
    with one_transaction(alias):
        rows = [row for row in _live(alias, key, about) if row.status == "paused"]
        return wake(alias, rows, run_sql.now(alias), why=asked_by())


def alias_in_use() -> str:
    """The database of the running handler, or the configured one."""
    current = handling.get()
    return current.using if current else ready_settings().DATABASE


def project_zone() -> str:
    """The default zone."""
    return django_settings.TIME_ZONE


@contextmanager
def one_transaction(alias: str) -> Iterator[None]:
    """The transaction of the caller, or a new one. An error leaves that of the caller usable: nothing was written
    before."""
    with nullcontext() if connections[alias].in_atomic_block else transaction.atomic(using=alias):
        yield


def _moment(at: object, after: object, repeat: object, using: str) -> datetime | None:
    """The time that was passed, or None. Raises an error that says what to pass."""
    if after is not None:
        return run_sql.now(using) + _distance(at, after, repeat)
    match at:
        case None | datetime():
            return at
        case timedelta():
            fact = f"at={at!r} is a distance; pass it as after=..., which counts from now."
        case date():
            fact = (
                f"at={at!r} names a day and no time; pass at=datetime({at.year}, {at.month}, {at.day}, 9) or the like."
            )
        case _:
            fact = f"at={at!r} is not a datetime; pass one, such as datetime.fromisoformat('2026-11-20T18:00')."
    raise WrongKindOfTime(fact)


def _distance(at: object, after: object, repeat: object) -> timedelta:
    for name, other in (("at", at), ("repeat", repeat)):
        if other is not None:
            raise InvalidSchedule(f"after= was given together with {name}=; leave one of them out.")
    if not isinstance(after, timedelta):
        number = f"; pass after=timedelta(seconds={after})" if isinstance(after, int | float) else ""
        raise WrongKindOfTime(f"after={after!r} is not a timedelta{number}; it is counted from now, a moment is at=.")
    if after <= timedelta(0):
        raise InvalidSchedule(f"after={after} does not lie ahead; give a timedelta above 0, or emit() the event.")
    if after > LONGEST:
        raise InvalidSchedule(f"after={after} is longer than a century; pass at=datetime(...) if that is meant.")
    return after


def _table(at: datetime | None, repeat: Repeat | None, zone: str | ZoneInfo | None) -> Timetable:
    zone = name_of(zone) if zone else None
    if isinstance(repeat, Timetable):
        table = replace(repeat, zone=zone) if zone else repeat.or_in(project_zone())
        return table if at is None else replace(table, start=at)
    if repeat is not None:
        return Timetable(rule=repeat, zone=zone or project_zone(), start=at)
    if at is None:
        raise InvalidSchedule(
            "schedule() needs a time; pass at=datetime(...), after=timedelta(...) or repeat=when.daily('09:00')."
        )
    return Timetable(rule=once(at), zone=zone or project_zone())


def _moved(row: Schedule, at: datetime | None, repeat: Repeat | None, zone: str | ZoneInfo | None) -> Wanted:
    intent = read_intent(row.intent)
    table = replace(intent.table, zone=name_of(zone) if zone else intent.table.zone)
    if isinstance(repeat, Timetable):
        table = _table(at, repeat.or_in(table.zone), zone)
    elif at is not None and repeat is None and table.rule.single:
        table = replace(table, rule=once(at))
    elif at is not None or repeat is not None:
        table = replace(table, rule=repeat or table.rule, start=at or table.start, remaining=row.remaining)
    return Wanted(row.key, event_of(row), replace(intent, table=table), row.plan)


def chosen(alias: str, key: Key | None, about: Entities) -> ScheduleQuerySet:
    """The schedule with a key, or all schedules about an entity or a type of entities."""
    if (key is None) == (about is None):
        raise InvalidSchedule("Say which: pass a key, or about=..., and not both.")
    rows = schedules.rows(alias)
    return rows.filter(key=key_of(key)) if key is not None else rows.about(*entities_of(about))


def key_of(key: Key) -> str:
    """The key itself, also from the schedule that `schedule` returned."""
    if isinstance(key, str):
        return key
    if _is_schedule(key):
        return key.key
    raise InvalidSchedule(f"key={key!r} is not text; to mean all schedules of an entity pass about=...")


def entities_of(about: Entities) -> tuple[str, str | None]:
    """Type and id of an entity; without an id for all entities of the type."""
    if _is_schedule(about):
        raise InvalidSchedule(f"about={about!r} is a schedule, not an entity; pass it as the key.")
    if isinstance(about, type) and issubclass(about, models.Model):
        return aggregate_type(about), None
    if isinstance(about, tuple) and len(about) == 2 and about[1] is None:
        return aggregate_of((about[0], "all"))[0], None
    return aggregate_of(about)


def _is_schedule(value: object) -> TypeGuard[Schedule]:
    return isinstance(value, models.Model) and value._meta.label == "duebox.Schedule"


def _live(alias: str, key: Key | None, about: Entities) -> list[Schedule]:
    return schedules.locked(chosen(alias, key, about).live())


def _locked(rows: ScheduleQuerySet) -> list[Schedule]:
    """Without the data of the events, because there may be many rows."""
    return schedules.locked(rows.defer("intent", "data", "metadata"))


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


def _check_on_past(on_past: OnPast, key: str | None) -> None:
    if on_past not in ("error", "ignore"):
        raise InvalidSchedule(f"on_past={on_past!r} must be 'error' or 'ignore'.")
    if on_past == "ignore" and key is None:
        raise InvalidSchedule("on_past='ignore' is for a call that is made again under the same key; pass key=...")


def _is_past(change: Change) -> bool:
    return change.planned is not None and change.planned.next is None and change.wanted.intent.table.remaining != 0


def _refuse_another_type(wanted: Wanted, before: Schedule | None) -> None:
    """Two parts of a project that use the same key by mistake would replace each other's schedules."""
    if before is None or before.status not in ("scheduled", "paused") or before.type == wanted.event.type:
        return
    raise InvalidSchedule(
        f"key={wanted.key!r} is that of a live schedule of {before.type!r}, not of {wanted.event.type!r}; "
        f"use another key, or take that one back first: duebox.cancel({wanted.key!r})."
    )


def _refuse_the_past(change: Change) -> None:
    """A schedule without future occurrences is an error; the schedule that it would replace does not change."""
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
        raise InvalidSchedule(
            f"{when} fired already, or lies in the past; give another time, or another key, "
            "or pass on_past='ignore' where the call is made again at each deploy."
        )
    now = write(clock.now())
    raise InvalidSchedule(f"{when} has no occurrence after now ({now}); give a later time, or emit() the event.")
