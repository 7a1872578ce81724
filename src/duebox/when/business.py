"""Business days: a small protocol, Monday to Friday built in, public holidays by an optional package."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Protocol

from duebox.when.errors import InvalidRule, WhenError
from duebox.when.policy import Closed

LONGEST_CLOSURE = timedelta(days=31)


class Calendar(Protocol):
    """Anything that knows its business days."""

    def is_business_day(self, day: date) -> bool:
        """Whether the calendar is open on this date."""
        ...


class Weekdays:
    """Monday to Friday, holidays or not."""

    def is_business_day(self, day: date) -> bool:
        """Whether the date is no Saturday and no Sunday."""
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
        """Whether the date is a working day in that country or subdivision."""
        return day.weekday() < 5 and day not in self._closed


_named: dict[str, Callable[[], Calendar]] = {"weekdays": Weekdays}


def register_calendar(name: str, make: Callable[[], Calendar]) -> None:
    """Give a calendar a name, by which timetables refer to it in the database."""
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
    """The date itself if it is open, else the nearest open one in the policy's direction; none to skip it."""
    if of.is_business_day(day):
        return day
    if closed is Closed.SKIP:
        return None
    step = timedelta(days=1 if closed is Closed.FORWARD else -1)
    for count in range(1, LONGEST_CLOSURE.days + 1):
        if of.is_business_day(day + count * step):
            return day + count * step
    raise WhenError(f"Calendar is closed for {LONGEST_CLOSURE.days} days around {day}; check it, or use closed='skip'.")
