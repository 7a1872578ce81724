"""`Timetable`: a rule with its zone, policies and limits; and the calendars of business days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from duebox.when import rules, zones
from duebox.when.errors import InvalidRule, WhenError
from duebox.when.policy import Closed, Fold, Gap, choose
from duebox.when.rrule import Recurrence
from duebox.when.rules import Cron, ElapsedRule, Reminder, Rule, WallRule
from duebox.when.times import LAST_YEAR, NO_TIME, instant, read, wall, write

LONGEST_CLOSURE = timedelta(days=31)


class Calendar(Protocol):
    """A calendar of business days."""

    def is_business_day(self, day: date) -> bool: ...


class Weekdays:
    """Monday to Friday, including holidays."""

    def is_business_day(self, day: date) -> bool:
        return day.weekday() < 5


class PublicHolidays:
    """Monday to Friday without public holidays, from the `holidays` package."""

    def __init__(self, country: str, subdivision: str | None = None) -> None:
        try:
            holidays = import_module("holidays")
        except ImportError:
            raise WhenError(f"Calendar holidays:{country} needs a package; run pip install holidays.") from None
        try:
            self._closed = holidays.country_holidays(country, subdiv=subdivision)
        except NotImplementedError as error:
            raise WhenError(f"Calendar holidays:{country} is not known: {error}; use ISO codes.") from None

    def is_business_day(self, day: date) -> bool:
        return day.weekday() < 5 and day not in self._closed


_named: dict[str, Callable[[], Calendar]] = {"weekdays": Weekdays}


def register_calendar(name: str, make: Callable[[], Calendar]) -> None:
    """Register a calendar under the name that timetables use for it."""
    _named[name] = make
    calendar.cache_clear()


@lru_cache(maxsize=64)
def calendar(name: str) -> Calendar:
    """The calendar of a name: `weekdays`, a registered one, or `holidays:US` and `holidays:US/CA`."""
    if name in _named:
        return _named[name]()
    source, _, place = name.partition(":")
    if source != "holidays" or not place:
        known = ", ".join(sorted(_named))
        raise InvalidRule(f"Calendar {name!r} is not known; use {known}, holidays:US, or register_calendar.")
    country, _, subdivision = place.partition("/")
    return PublicHolidays(country, subdivision or None)


def open_day(day: date, of: Calendar, closed: Closed) -> date | None:
    """The date if it is open, otherwise the nearest open one in the direction of the policy; None to skip it."""
    if of.is_business_day(day):
        return day
    if closed is Closed.SKIP:
        return None
    step = timedelta(days=1 if closed is Closed.FORWARD else -1)
    for count in range(1, LONGEST_CLOSURE.days + 1):
        if of.is_business_day(day + count * step):
            return day + count * step
    raise WhenError(f"Calendar is closed for {LONGEST_CLOSURE.days} days around {day}; check it, or use closed='skip'.")


_CLASSES: tuple[type[Rule], ...] = (
    rules.Once, rules.Moment, rules.Reminder, rules.Daily, rules.Weekly, rules.Monthly, rules.Anniversary, rules.Every,
    rules.Cron, Recurrence,
)  # fmt: skip
KINDS: dict[str, type[Rule]] = {kind.kind: kind for kind in _CLASSES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When something happens, in the terms of the user; every instant is derived from it.

    `start` (inclusive) and `end` (exclusive) are local if naive, instants if aware. `remaining` is how many more times
    it fires; the caller lowers it when it records a firing. `flex` delays each schedule by its share of that window.
    Hourly and finer rules follow elapsed time, so `gap` and `fold` do not apply to them.

    A timetable without a `zone` has no occurrences: `duebox.schedule` and others then use the project's TIME_ZONE.
    """

    rule: Rule
    zone: str = ""
    gap: Gap = Gap.SHIFT_FORWARD
    fold: Fold = Fold.FIRST
    start: datetime | None = None
    end: datetime | None = None
    remaining: int | None = None
    calendar: str | None = None
    closed: Closed = Closed.SKIP
    flex: timedelta = NO_TIME

    def __post_init__(self) -> None:
        for name, options in (("gap", Gap), ("fold", Fold), ("closed", Closed)):
            object.__setattr__(self, name, choose(options, getattr(self, name)))
        for name in ("start", "end"):
            object.__setattr__(self, name, _bound(getattr(self, name), name))
        if self.zone != "":
            object.__setattr__(self, "zone", zones.name_of(self.zone))
        self._check()

    def _check(self) -> None:
        if not isinstance(self.rule, WallRule | ElapsedRule | Reminder):
            raise InvalidRule(f"{self.rule!r} is not a rule; use one such as daily('09:00').")
        if self.calendar is not None:
            calendar(self.calendar)
            if self.closed is not Closed.SKIP and not follows_wall_clock(self.rule):
                raise InvalidRule(f"closed={self.closed.value!r} needs a daily or coarser rule; use 'skip'.")
        if self.remaining is not None and self.remaining < 0:
            raise WhenError(f"remaining={self.remaining} is below zero; use 0 or more, or None for no limit.")
        if self.flex < NO_TIME:
            raise WhenError(f"flex={self.flex} is negative; a flex window only delays.")
        if self.start and self.end and _comparable(self.start, self.end) and self.end <= self.start:
            raise WhenError(f"end={write(self.end)} is not after start={write(self.start)}; move one of them.")

    def with_rule(self, rule: Rule) -> Timetable:
        """The same with another rule, in a third of the time of `replace`."""
        if self.calendar is not None or not isinstance(rule, Rule):
            return replace(self, rule=rule)
        table = object.__new__(Timetable)
        _set(
            table, "rule", rule
        )  # written out for speed: a loop takes a third longer, and plans call this for each row
        _set(table, "zone", self.zone)
        _set(table, "gap", self.gap)
        _set(table, "fold", self.fold)
        _set(table, "start", self.start)
        _set(table, "end", self.end)
        _set(table, "remaining", self.remaining)
        _set(table, "calendar", self.calendar)
        _set(table, "closed", self.closed)
        _set(table, "flex", self.flex)
        return table

    def or_in(self, zone: str) -> Timetable:
        """The same, in this zone if it has none of its own."""
        return self if self.zone else replace(self, zone=zone)

    def to_dict(self) -> dict[str, Any]:
        """JSON data for the stored row; defaults are left out, except for policies."""
        found: dict[str, Any] = {"rule": {"kind": self.rule.kind, **self.rule.to_dict()}, "zone": self.zone}
        found |= {"gap": self.gap.value, "fold": self.fold.value}
        found |= {name: write(at) for name in ("start", "end") if (at := getattr(self, name))}
        if self.remaining is not None:
            found["remaining"] = self.remaining
        if self.calendar:
            found |= {"calendar": self.calendar, "closed": self.closed.value}
        if self.flex:
            found["flex"] = self.flex.total_seconds()
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Timetable:
        """The inverse of `to_dict`; unknown fields are refused."""
        if unknown := data.keys() - {field.name for field in fields(cls)}:
            raise WhenError(f"Timetable data has unknown {', '.join(sorted(unknown))}; written by a newer release?")
        values = dict(data)
        values["rule"] = rule_from_dict(data["rule"])
        values |= {name: read(data[name]) for name in ("start", "end") if name in data}
        values["flex"] = timedelta(seconds=data.get("flex", 0))
        return cls(**values)


_set = object.__setattr__


def rule_from_dict(data: dict[str, Any]) -> Rule:
    """A rule from its stored form."""
    kind = KINDS.get(data.get("kind", ""))
    if kind is None:
        raise InvalidRule(f"Rule kind {data.get('kind')!r} does not exist; use one of {', '.join(KINDS)}.")
    return kind.from_dict({name: value for name, value in data.items() if name != "kind"})


def follows_wall_clock(rule: Rule) -> bool:
    """Whether gap and fold policies apply to the rule: daily and coarser, not hourly and finer."""
    return isinstance(rule, WallRule) and not (isinstance(rule, Cron) and rule.clock == "elapsed")


def _bound(value: datetime | None, name: str) -> datetime | None:
    if value is None:
        return None
    if name == "end" and isinstance(value, datetime) and value.year > LAST_YEAR:
        return None  # `datetime.max` means "without an end"
    return wall(value, name) if getattr(value, "tzinfo", None) is None else instant(value, name)


def _comparable(one: datetime, other: datetime) -> bool:
    return (one.tzinfo is None) == (other.tzinfo is None)
