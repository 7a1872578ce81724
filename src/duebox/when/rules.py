"""The rules except RRULE: once, daily, weekly, monthly, anniversary, every, cron and reminder.

Daily and coarser rules follow the wall clock; hourly and finer rules follow elapsed time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from duebox.when.errors import InvalidRule, WhenError, WrongKindOfTime
from duebox.when.offsets import Offset, date_in_month, offset
from duebox.when.policy import Leap, choose
from duebox.when.resolver import Moved, Nominal
from duebox.when.times import (
    LAST_DAY,
    LAST_INSTANT,
    LAST_YEAR,
    NO_TIME,
    day,
    elapsed,
    instant,
    read,
    short,
    time_of_day,
    times_of_day,
    wall,
    write,
)

Readers = dict[str, Callable[[Any], Any]]


class Rule(ABC):
    """The base of all rules: a frozen dataclass that can be stored as JSON."""

    __slots__ = ()
    kind: ClassVar[str]
    single: ClassVar[bool] = False
    """Whether it has one occurrence only."""
    readers: ClassVar[Readers] = {}
    """How `from_dict` reads the fields that JSON has no type for."""

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON data, without its kind, empty fields and a step of 1."""
        found = {}
        for name in _field_names(type(self)):
            value = getattr(self, name)
            if value is not None and value != () and not (name == "every" and value == 1):
                found[name] = _json(value)
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Rule:
        readers = cls.readers
        return cls(**{name: readers[name](value) if name in readers else value for name, value in data.items()})


@cache
def _field_names(rule: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(rule))


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return write(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return str(value) if isinstance(value, StrEnum | Offset) else value


class WallRule(Rule):
    """A rule of local times."""

    __slots__ = ()

    @abstractmethod
    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time, in order."""


class ElapsedRule(Rule):
    """A rule of instants, which clock changes do not affect."""

    __slots__ = ()

    @abstractmethod
    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, in order."""


NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def weekday(name: int | str) -> int:
    """The number of a day given as 0 to 6, "MO", "mon" or "Monday"."""
    if isinstance(name, int) and 0 <= name <= 6:
        return name
    wanted = str(name).strip().casefold()
    for number, full in enumerate(NAMES):
        if len(wanted) >= 2 and full.casefold().startswith(wanted):
            return number
    raise InvalidRule(f"Weekday {name!r} does not exist; use names such as 'mon' or 'Monday'.")


def weekday_set(names: Iterable[int | str]) -> tuple[int, ...]:
    """Several days, in the order of the week, each once."""
    found = tuple(sorted({weekday(name) for name in names}))
    if not found:
        raise InvalidRule("The rule names no weekday; give at least one, such as 'mon'.")
    return found


@dataclass(frozen=True, slots=True)
class Once(WallRule):
    """One local time. The instant follows the zone, and a new release of the zone database."""

    kind: ClassVar[str] = "once"
    single: ClassVar[bool] = True
    readers: ClassVar[Readers] = {"at": read}
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", wall(self.at, "Once(at)"))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        if self.at > after:
            yield Nominal(self.at)

    def to_dict(self) -> dict[str, Any]:  # written out for speed: it is called for each row of a plan
        return {"at": write(self.at)}


@dataclass(frozen=True, slots=True)
class Moment(ElapsedRule):
    """One instant, in any zone."""

    kind: ClassVar[str] = "moment"
    single: ClassVar[bool] = True
    readers: ClassVar[Readers] = {"at": read}
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", instant(self.at, "Moment(at)"))

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        if self.at > after:
            yield self.at


def once(at: datetime) -> Once | Moment:
    """A single occurrence: a naive time is read on the wall clock, an aware one is that instant."""
    return Once(at) if isinstance(at, datetime) and at.tzinfo is None else Moment(at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(WallRule):
    """A rule of local times of day, every `every` units counted from `since`."""

    unit: ClassVar[str]
    readers: ClassVar[Readers] = {"at": times_of_day, "since": day}
    at: tuple[time, ...]
    every: int = 1
    since: date | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or self.every < 1:
            raise InvalidRule(f"every={self.every!r} {self.unit}s is not a valid step; use a whole number from 1.")
        if self.every > 1 and self.since is None:
            raise InvalidRule(f"every={self.every} {self.unit}s has no day to count from; add since=date(...).")

    def on_day(self, today: date, after: datetime, moved: Moved | None = None) -> Iterator[Nominal]:
        """The times of one day that lie after a local time."""
        for local in (datetime.combine(today, one) for one in self.at):
            if local > after:
                yield Nominal(local, moved=moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily(Stepped):
    """Local times of day, every `every` days counted from `since`."""

    kind: ClassVar[str] = "daily"
    unit: ClassVar[str] = "day"

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        first = self.since.toordinal() if self.since else 1
        number = max(first, after.toordinal())
        number += (first - number) % self.every
        while number <= LAST_DAY:  # `date` itself ends a year later, and a long step may pass that
            yield from self.on_day(date.fromordinal(number), after)
            number += self.every


def daily(at: time | str | tuple[time | str, ...], *, every: int = 1, since: date | str | None = None) -> Daily:
    """Each day at one or more local times: `daily("09:00")`; `every=2` needs `since` to count from."""
    return Daily(at=times_of_day(at), every=every, since=None if since is None else day(since, "since"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly(Stepped):
    """Weekdays at local times, every `every` weeks. Weeks start on Monday; the one of `since` is the first."""

    kind: ClassVar[str] = "weekly"
    unit: ClassVar[str] = "week"
    readers: ClassVar[Readers] = {**Stepped.readers, "days": weekday_set}
    days: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**Rule.to_dict(self), "days": [CODES[number] for number in self.days]}

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        first = _week(self.since) if self.since else 0
        week = max(first, _week(after.date()))
        week += (first - week) % self.every
        # Day 1 of Python's calendar is a Monday.
        while week * 7 + 1 <= LAST_DAY:
            for number in self.days:
                today = date.fromordinal(week * 7 + 1 + number)
                if self.since is None or today >= self.since:
                    yield from self.on_day(today, after)
            week += self.every


def weekly(
    *days: int | str, at: time | str | tuple[time | str, ...], every: int = 1, since: date | str | None = None
) -> Weekly:
    """Each week on given days: `weekly("mon", "thu", at="09:00")`."""
    start = None if since is None else day(since, "since")
    return Weekly(days=weekday_set(days), at=times_of_day(at), every=every, since=start)


def _week(today: date) -> int:
    return (today.toordinal() - 1) // 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Monthly(Stepped):
    """Day `day` of every `every`-th month, counted from the month of `since`; -1 is the last day."""

    kind: ClassVar[str] = "monthly"
    unit: ClassVar[str] = "month"
    day: int
    leap: Leap = Leap.BACKWARD

    def __post_init__(self) -> None:
        Stepped.__post_init__(self)
        object.__setattr__(self, "leap", choose(Leap, self.leap))
        if not isinstance(self.day, int) or not 1 <= abs(self.day) <= 31:
            raise InvalidRule(f"Day {self.day!r} of the month does not exist; use 1 to 31, or -1 for the last.")
        if self.leap is Leap.OMIT and not _ever(self.day, self.every, self.since):
            raise InvalidRule(f"Day {self.day} never comes every {self.every} months; use another leap policy.")

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        first = _month(self.since) if self.since else 0
        # One month back: with `forward`, the 31st of a short month falls into the next one.
        month = max(first, _month(after.date()) - 1)
        month += (first - month) % self.every
        while month // 12 <= LAST_YEAR:
            found = date_in_month(month // 12, month % 12 + 1, self.day, self.leap)
            if found and (self.since is None or found >= self.since):
                moved = Moved.LEAP if 0 < self.day != found.day else None
                yield from self.on_day(found, after, moved)
            month += self.every


def monthly(
    number: int,
    *,
    at: time | str | tuple[time | str, ...],
    every: int = 1,
    since: date | str | None = None,
    leap: Leap | str = Leap.BACKWARD,
) -> Monthly:
    """Each month on one day: `monthly(31, at="09:00")` is the last day of shorter months by default."""
    start = None if since is None else day(since, "since")
    return Monthly(day=number, at=times_of_day(at), every=every, since=start, leap=choose(Leap, leap))


def _month(today: date) -> int:
    return today.year * 12 + today.month - 1


def _ever(number: int, every: int, since: date | None) -> bool:
    first = _month(since) if since else 2000 * 12
    # Months and leap years repeat after 400 years, whatever the step.
    months = (first + step * every for step in range(4800))
    return any(date_in_month(2000 + m // 12 % 400, m % 12 + 1, number, Leap.OMIT) for m in months)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anniversary(WallRule):
    """A date at a local time in each later year. The key of an occurrence is its year.

    So it does not fire twice in a year when a birthday is corrected from the 20th to the 21st after it has fired.
    """

    kind: ClassVar[str] = "anniversary"
    readers: ClassVar[Readers] = {"of": day, "at": time_of_day}
    of: date
    at: time
    leap: Leap = Leap.BACKWARD

    def __post_init__(self) -> None:
        object.__setattr__(self, "leap", choose(Leap, self.leap))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        for year in range(max(self.of.year + 1, after.year), LAST_YEAR + 1):
            found = self.in_year(year)
            if found and found.local > after:
                yield found

    def in_year(self, year: int) -> Nominal | None:
        """The anniversary of one year; none when the date is missing and the policy is to omit it."""
        found = date_in_month(year, self.of.month, self.of.day, self.leap)
        if found is None:
            return None
        moved = None if found.day == self.of.day else Moved.LEAP
        return Nominal(datetime.combine(found, self.at), f"{year:04}", moved)

    def to_dict(self) -> dict[str, Any]:  # written out for speed: it is called for each row of a plan
        return {"of": self.of.isoformat(), "at": self.at.isoformat(), "leap": str(self.leap)}


def anniversary(of: date | str, *, at: time | str, leap: Leap | str = Leap.BACKWARD) -> Anniversary:
    """Each year on a date: `anniversary(date(1990, 2, 29), at="09:00")`; Feb 29 is Feb 28 in common years."""
    return _shared(day(of, "of"), time_of_day(at, "at"), choose(Leap, leap))


@lru_cache(maxsize=50_000)
def _shared(of: date, at: time, leap: Leap) -> Anniversary:
    """Cached: a million people have thirty thousand birthdays."""
    return Anniversary(of=of, at=at, leap=leap)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Every(ElapsedRule):
    """An interval of elapsed time, counted from an anchor, so that late runs and restarts do not shift it."""

    kind: ClassVar[str] = "every"
    interval: timedelta
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", instant(self.anchor, "Every(anchor)"))
        if not isinstance(self.interval, timedelta) or self.interval <= NO_TIME:
            raise InvalidRule(f"{self.interval!s} is not an interval; give one above zero, such as every(seconds=30).")
        if self.interval < A_SECOND:
            raise InvalidRule(
                f"Interval {self.interval} repeats more often than once a second; use every(seconds=1) or more."
            )
        if self.interval % A_SECOND:
            raise InvalidRule(f"Interval {self.interval} is not a whole number of seconds; round it.")

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        step = max(0, (after - self.anchor) // self.interval + 1)
        last = (LAST_INSTANT - self.anchor) // self.interval
        while step <= last:
            yield self.anchor + step * self.interval
            step += 1

    def to_dict(self) -> dict[str, Any]:
        return {"seconds": self.interval.total_seconds(), "anchor": write(self.anchor)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Every:
        return cls(timedelta(seconds=data["seconds"]), read(data["anchor"]))


def every(
    interval: timedelta | None = None,
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    anchor: datetime = EPOCH,
) -> Every:
    """An exact interval: `every(hours=6)`, `every(seconds=30)`, or a timedelta. A second is the shortest.

    A day here is 24 hours; `daily` keeps the wall clock.
    """
    total = elapsed("every()", weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    if interval is None:
        return Every(total, anchor)
    if not isinstance(interval, timedelta):
        raise InvalidRule(f"every({interval!r}) has no unit; pass a timedelta, or every(seconds={interval!r}).")
    if total:
        raise InvalidRule("every() was given both a timedelta and units; leave one of them out.")
    return Every(interval, anchor)


MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_ANY_DAY = datetime(2000, 1, 1)


class Clock(StrEnum):
    """Whether a cron expression follows the wall clock or elapsed time."""

    WALL = "wall"
    ELAPSED = "elapsed"


@dataclass(frozen=True, slots=True)
class Cron(WallRule):
    """A cron expression. With an hour of `*` or `*/n` it runs on elapsed time, else by the gap and fold policies.

    On elapsed time it runs each time a clock shows a matching minute: not in a gap, twice in a fold, so that
    `*/15 * * * *` stays a quarter of an hour apart all year.
    """

    kind: ClassVar[str] = "cron"
    expression: str
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidRule(
                f"Cron expression {self.expression!r} is not a text; write five fields, as in cron('30 9 * * MON-FRI')."
            )
        text = " ".join(self.expression.split())
        text = MACROS.get(text.casefold(), text)
        _check(text)
        wildcard = text.split()[1].startswith("*")
        natural = Clock.ELAPSED if wildcard else Clock.WALL
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "clock", natural if self.clock is None else choose(Clock, self.clock))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        # Without a zone: cronsim would apply its own policies to gaps and folds.
        for local in CronSim(self.expression, after):
            if local.year > LAST_YEAR:
                return
            yield Nominal(local)


def cron(expression: str, *, clock: Clock | str | None = None) -> Cron:
    """A five-field cron expression: `cron("30 9 * * MON-FRI")`; `clock` overrules how it meets gaps and folds."""
    return Cron(expression, None if clock is None else choose(Clock, clock))


@lru_cache(maxsize=4096)
def _check(expression: str) -> None:
    count = len(expression.split())
    if count != 5:
        raise InvalidRule(
            f"Cron expression {expression!r} has {count} fields, not five; "
            "write minute, hour, day of month, month, day of week (a minute is the finest step)."
        )
    try:
        first = next(iter(CronSim(expression, _ANY_DAY)), None)
    except (CronSimError, ValueError) as error:  # ValueError: a number of more digits than Python reads
        shown = expression if len(expression) <= 100 else f"{expression[:100]}..."
        raise InvalidRule(f"Cron expression {shown!r} is wrong: {error}; correct that field.") from None
    if first is None:
        raise InvalidRule(f"Cron expression {expression!r} never matches a date; correct its day or month.")


@dataclass(frozen=True, slots=True)
class Reminder(Rule):
    """An offset from an anchor, which is a local time if naive and an instant if aware.

    Its key is made of anchor and offset: a new anchor has its own reminders, and an anchor that is set back before they
    fired has the first ones again.
    """

    kind: ClassVar[str] = "reminder"
    single: ClassVar[bool] = True
    readers: ClassVar[Readers] = {"anchor": read, "by": offset}
    anchor: datetime
    by: Offset

    def __post_init__(self) -> None:
        if not isinstance(self.anchor, datetime):
            raise WrongKindOfTime(f"The anchor is {self.anchor!r}, not a time; pass a datetime.")
        if not isinstance(self.by, Offset):
            raise WhenError(f"The offset is {self.by!r}; use one such as days(-1), hours(-2) or '-P1D'.")
        anchor = wall(self.anchor) if self.anchor.tzinfo is None else instant(self.anchor)
        object.__setattr__(self, "anchor", anchor)

    @property
    def key(self) -> str:
        """Identifies it, in every zone."""
        mark = "" if self.anchor.tzinfo is None else "Z"
        return f"{short(self.anchor.replace(tzinfo=None))}{mark}/{self.by}"

    def to_dict(self) -> dict[str, Any]:  # written out for speed: it is called for each row of a plan
        return {"anchor": write(self.anchor), "by": str(self.by)}


def reminder(anchor: datetime, by: Offset | str) -> Reminder:
    """Once, at an offset from an anchor: `reminder(appointment.starts_at, days(-1))`."""
    return Reminder(anchor, offset(by) if isinstance(by, str) else by)
