"""Rows of django-celery-beat as schedules: the rule of a row, and what differs from Celery when clocks change.

The package is imported by the functions that need it: a project without Celery has neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from cronsim import CronSim, CronSimError
from django.apps import apps
from django.conf import settings as django_settings

from duebox.contracts.event_types import latest
from duebox.exceptions import DueboxError
from duebox.when import Rule, Timetable, between, clock_changes, cron, every, local_time, once, rrule

APP = "django_celery_beat"
KEY_PREFIX = "celery-beat:"
CLEANUP = "celery.backend_cleanup"
NO_COUNTERPART = ("queue", "exchange", "routing_key", "priority")
AROUND = timedelta(hours=25)
"""How long before and after a clock change runs are compared: a daily one is in there in any zone."""
NEAR = timedelta(hours=3)
MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
SINCE = datetime(2020, 1, 1)
"""Recurrences need a start. It is always the same, so that a second import finds nothing to change."""
_FULL = {
    "minute": range(60), "hour": range(24), "day_of_month": range(1, 32), "month_of_year": range(1, 13),
    "day_of_week": range(7),
}  # fmt: skip
_CRONSIM = ("minutes", "hours", "days", "months", "weekdays")
_DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")


class NotImportable(DueboxError):
    """A row that has no counterpart; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A clock change at which Celery and Duebox run a task at different times."""

    change: datetime
    zone: str
    forward: bool
    celery: tuple[datetime, ...]
    """Instants at which only Celery runs it."""
    duebox: tuple[datetime, ...]
    """Instants at which only Duebox does."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a row becomes, before it is stored."""

    key: str
    type: str
    data: Mapping[str, Any]
    table: Timetable
    expires: timedelta | None = None
    notes: list[str] = field(default_factory=list)


def installed() -> bool:
    return apps.is_installed(APP)


def rows() -> list[Any]:
    """All rows of django-celery-beat, with what they refer to, by name."""
    found = apps.get_model(APP, "PeriodicTask")._default_manager
    return list(found.select_related("interval", "crontab", "solar", "clocked").order_by("name"))


def why_skipped(row: Any, now: datetime) -> str:
    """Why there is nothing to import for a row; nothing if there is."""
    if row.task == CLEANUP:
        return "Celery's own task, which removes old results of tasks"
    if not row.enabled:
        return "disabled in django-celery-beat"
    if row.expires is not None and row.expires <= now:
        return f"expired at {row.expires:%Y-%m-%d %H:%M} UTC"
    if row.one_off and row.total_run_count:
        return "a one-off task that has run"
    if row.clocked and row.clocked.clocked_time <= now:
        return f"its time has passed: {row.clocked.clocked_time:%Y-%m-%d %H:%M} UTC"
    return ""


def convert(row: Any, events: Mapping[str, str], default_event: str | None) -> Imported:
    """The schedule for a row; `NotImportable` where there is none."""
    if row.task in events:
        type, data = events[row.task], _data(row, events[row.task])
    elif default_event:
        type, data = default_event, {"task": row.task, "args": _args(row), "kwargs": _kwargs(row)}
    else:
        repair = f"pass --event {row.task}=TYPE, or --default-event TYPE"
        raise NotImportable(f"no event type for the task {row.task}; {repair}")
    rule, zone, notes = _rule(row)
    table = Timetable(
        rule=rule,
        zone=zone,
        start=None if rule.single else row.start_time,
        end=None if rule.single else row.expires,
        remaining=1 if row.one_off and not rule.single else None,
    )
    for name in NO_COUNTERPART:
        if getattr(row, name) is not None:
            notes.append(f"{name} {getattr(row, name)!r} has no counterpart; it is left out")
    if _json(row, "headers", {}):
        notes.append("headers have no counterpart; they are left out")
    expires = timedelta(seconds=row.expire_seconds) if row.expire_seconds else None
    return Imported(f"{KEY_PREFIX}{row.name}", type, data, table, expires, notes)


def _rule(row: Any) -> tuple[Rule, str, list[str]]:
    """The rule of a row, its zone, and what is different about it."""
    if row.crontab:
        return _cron(row.crontab), _zone(row.crontab), []
    if row.interval:
        interval = timedelta(**{row.interval.period: row.interval.every})
        if interval < timedelta(seconds=1) or interval.microseconds:
            seconds = f"{interval.total_seconds():g}"
            raise NotImportable(f"an interval of {seconds} s; it has to be whole seconds, one or more")
        note = "Celery counts the interval from its last run, Duebox from midnight UTC of 1970-01-01"
        return every(interval), django_settings.TIME_ZONE, [note]
    if row.clocked:
        return once(row.clocked.clocked_time), django_settings.TIME_ZONE, []
    if row.solar:
        raise NotImportable(f"a solar schedule ({row.solar}); Duebox has no rules for sunrise, sunset and the like")
    raise NotImportable("no schedule: neither crontab, interval nor clocked time is set")


def _zone(crontab: Any) -> str:
    if getattr(django_settings, "DJANGO_CELERY_BEAT_TZ_AWARE", True):
        return str(crontab.timezone)
    return str(crontab.schedule.tz)


def _cron(crontab: Any) -> Rule:
    """The rule of a crontab. Celery wants the day of the month and of the week to match, cron one of them; where both
    are given it is a recurrence."""
    try:
        schedule = crontab.schedule
    except Exception as error:  # Celery's ParseException has no other base
        raise NotImportable(f"Celery cannot read its crontab ({crontab}): {error}") from error
    sets = {name: set(getattr(schedule, name)) for name in _FULL}
    texts = [_text(name, sets[name], str(getattr(schedule, f"_orig_{name}")), at) for at, name in enumerate(_FULL)]
    if texts[2].startswith("*") or texts[4].startswith("*"):
        return cron(" ".join(texts))
    days = ",".join(_DAYS[each] for each in sorted(sets["day_of_week"]))
    parts = {"MONTH": "month_of_year", "MONTHDAY": "day_of_month", "HOUR": "hour", "MINUTE": "minute"}
    limits = [f"BY{part}={_list(sets[name])}" for part, name in parts.items() if sets[name] != {*_FULL[name]}]
    return rrule(";".join(["FREQ=DAILY", *limits, f"BYDAY={days}", *_all_day(sets), "BYSECOND=0"]), start=SINCE)


def _all_day(sets: Mapping[str, set[int]]) -> Iterator[str]:
    """Without them a recurrence has the hour and the minute of its start."""
    for part, name in (("BYHOUR", "hour"), ("BYMINUTE", "minute")):
        if sets[name] == {*_FULL[name]}:
            yield f"{part}={_list(sets[name])}"


def _text(name: str, wanted: set[int], written: str, at: int) -> str:
    """A field of a cron expression: as it was written if cron reads it as Celery does, otherwise the values."""
    if wanted == {*_FULL[name]}:
        return "*"
    fields = ["*"] * 5
    fields[at] = "".join(written.split())
    try:
        found = getattr(CronSim(" ".join(fields), SINCE), _CRONSIM[at])
    except (CronSimError, ValueError):
        return _list(wanted)
    same = {each % 7 for each in found} if name == "day_of_week" else {*found}
    return fields[at] if same == wanted else _list(wanted)


def _list(values: set[int]) -> str:
    return ",".join(map(str, sorted(values)))


def _data(row: Any, type: str) -> dict[str, Any]:
    """Arguments as fields: keyword arguments by name, positional ones in the order of the fields of the event."""
    args, kwargs = _args(row), _kwargs(row)
    if not args:
        return kwargs
    declared = latest(type)
    names = list(declared.schema.get("properties", ())) if declared else []
    if len(args) > len(names):
        has = f"the event {type} has {len(names)} fields" if declared else f"the event {type} is not declared"
        raise NotImportable(f"{len(args)} positional arguments, but {has}; make them keyword arguments")
    named = dict(zip(names, args, strict=False))
    if twice := named.keys() & kwargs.keys():
        raise NotImportable(f"the field {min(twice)!r} is given by position and by name; leave one of them out")
    return named | kwargs


def _args(row: Any) -> list[Any]:
    return list(_json(row, "args", []))


def _kwargs(row: Any) -> dict[str, Any]:
    return dict(_json(row, "kwargs", {}))


def _json(row: Any, name: str, empty: Any) -> Any:
    try:
        found = json.loads(getattr(row, name) or "null") or empty
    except ValueError:
        found = None
    if type(found) is not type(empty):
        raise NotImportable(f"{name} is not a JSON {'list' if empty == [] else 'object'}: {getattr(row, name)!r}")
    return found


def differences(row: Any, new: Imported, start: datetime, end: datetime) -> Iterator[Difference]:
    """Each clock change in that span at which the row's own schedule and the new one part."""
    if new.table.rule.single:
        return
    for change in clock_changes(new.table.zone, start, end):
        at = change.instant
        if row.crontab:
            first, last = at - AROUND, at + AROUND
            ours = _ours(new, first + MINUTE, last)
            theirs = {each for each in _crontab_runs(row.crontab.schedule, first, last, at) if each < last}
        else:
            length = timedelta(**{row.interval.period: row.interval.every})
            first, last = max(_ours(new, at - length, at), default=at), at + 2 * length + MINUTE
            ours = _ours(new, first + timedelta(microseconds=1), last)
            theirs = {each for each in _interval_runs(row.interval.schedule, first, last) if each < last}
        if ours != theirs:
            only = tuple(sorted(theirs - ours)), tuple(sorted(ours - theirs))
            yield Difference(at, new.table.zone, change.after > change.before, *only)


def _ours(new: Imported, start: datetime, end: datetime) -> set[datetime]:
    return {each.instant for each in between(new.table, start, end, seed=new.key)}


def _crontab_runs(schedule: Any, last: datetime, until: datetime, change: datetime) -> Iterator[datetime]:
    """When beat would run a crontab, by Celery's own code. Beat looks every few seconds; this looks every minute near
    the change, and further away when Celery expects a run."""

    def step(now: datetime, wait: timedelta) -> timedelta:
        return MINUTE if abs(now - change) <= NEAR else min(max(wait, MINUTE), QUARTER)

    return _runs(schedule, last, until, step, schedule.tz)


def _interval_runs(schedule: Any, last: datetime, until: datetime) -> Iterator[datetime]:
    return _runs(schedule, last, until, lambda now, wait: wait, UTC)


def _runs(
    schedule: Any,
    last: datetime,
    until: datetime,
    step: Callable[[datetime, timedelta], timedelta],
    zone: tzinfo,
) -> Iterator[datetime]:
    now = last
    schedule.nowfun = lambda: now.astimezone(zone)
    while now < until:
        due, wait = schedule.is_due(last)
        if due and now > last:
            yield now
            last = now
        else:
            now += step(now, timedelta(seconds=wait))


def shown(instant: datetime, zone: str) -> str:
    """A run for a reader: 03:30 (01:30 UTC)."""
    local = local_time(instant, zone)
    return f"{local:%a %Y-%m-%d %H:%M} ({instant.astimezone(UTC):%H:%M} UTC)"
