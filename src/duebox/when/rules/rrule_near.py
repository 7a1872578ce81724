"""Recurrence by dateutil, entered close to the time asked for.

dateutil walks from DTSTART at every question: ten years of a weekly rule cost milliseconds. A rule without its
limits repeats period by period, so it may start in any later period that is a whole number of steps away.
dateutil finds the dates; the times of day are combined with them here, so that a rule with many times a day does not
cost a walk through all of them. Only BYSETPOS, which counts dates and times together, is left to dateutil as a whole.
Days and weeks, where a BY part only leaves out, are walked through here: dateutil takes 130 µs for each day.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterator
from datetime import datetime, time
from functools import lru_cache
from itertools import product

from dateutil.rrule import rrulestr

from duebox.when.errors import InvalidRule
from duebox.when.rules.rrule_text import Parts
from duebox.when.rules.weekdays import CODES
from duebox.when.times import A_DAY, A_WEEK, LAST_YEAR

_YEARS_TO_SEARCH = 100
# dateutil makes the whole set of a period to pick from it.
LARGEST_SET = 20_000
_DAYS_OF_PERIOD = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
_TIMES = ("BYHOUR", "BYMINUTE", "BYSECOND")
LAST_LOCAL = datetime(LAST_YEAR, 12, 31)


def locals_from_near(parts: Parts, start: datetime, after: datetime) -> Iterator[datetime]:
    """The rule's local times after a local time and not before its start."""
    for local in _locals(parts, start, _enter(parts, start, after), after):
        if local.year > LAST_YEAR:
            return
        if local > after and local >= start:
            yield local


def first_match(parts: Parts, start: datetime) -> datetime | None:
    """The first local time of the rule, if there is one in a century."""
    _refuse_large_sets(parts)
    last = start.replace(year=min(start.year + _YEARS_TO_SEARCH, LAST_YEAR), month=12, day=31)
    if _is_walked(parts) and next(_walk(parts, start, start, last), None) is None:
        return None
    found = _locals(parts, start, start, start, until=f";UNTIL={last:%Y%m%dT%H%M%S}")
    return next((local for local in found if local >= start), None)


def _locals(parts: Parts, start: datetime, near: datetime, after: datetime, until: str = "") -> Iterator[datetime]:
    """The local times from a start that is in step with the real one; those of earlier dates may be left out."""
    if "BYSETPOS" in parts.by:
        yield from _dateutil(_explicit(parts, start) + until, near)
        return
    midnight = near.replace(hour=0, minute=0, second=0)
    times = times_of_day(parts, start)
    if _is_walked(parts):
        days = _walk(parts, start, max(midnight, _enter(parts, midnight, after)))
    else:
        days = _dateutil(_explicit(parts, start, without=_TIMES) + until, midnight)
    for day in days:
        if day.date() >= after.date():
            yield from (datetime.combine(day, at) for at in times)


def _is_walked(parts: Parts) -> bool:
    return parts.freq in ("DAILY", "WEEKLY") and "BYWEEKNO" not in parts.by


def _walk(parts: Parts, start: datetime, near: datetime, last: datetime = LAST_LOCAL) -> Iterator[datetime]:
    """The dates of a daily or weekly rule at midnight, from a start that is in step with the real one."""
    midnight = near.replace(hour=0, minute=0, second=0)
    weekdays = {CODES.index(code[-2:]) for code in parts.by.get("BYDAY", ())}
    if parts.freq == "WEEKLY":
        if not {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & parts.by.keys():
            weekdays = {start.weekday()}
        begins = CODES.index(parts.by.get("WKST", ("MO",))[0])
        week, length, period = midnight - (midnight.weekday() - begins) % 7 * A_DAY, 7, parts.interval * A_WEEK
    else:
        week, length, period = midnight, 1, parts.interval * A_DAY
    months, of_month, of_year = (set(parts.numbers(name)) for name in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY"))
    for number in range((last - week) // period + 1):
        first = week + number * period
        for day in (first + ahead * A_DAY for ahead in range(length)):
            if (
                (not weekdays or day.weekday() in weekdays)
                and (not months or day.month in months)
                and (not of_month or _counted(day.day, monthrange(day.year, day.month)[1]) & of_month)
                and (not of_year or _counted(day.timetuple().tm_yday, 365 + isleap(day.year)) & of_year)
                and midnight <= day <= last
            ):
                yield day


def _counted(number: int, length: int) -> set[int]:
    """The number of a day from the beginning, and from the end of its month or year."""
    return {number, number - length - 1}


def times_of_day(parts: Parts, start: datetime) -> tuple[time, ...]:
    """The times of day that the rule names, sorted."""
    hours = parts.numbers("BYHOUR") or (start.hour,)
    minutes = parts.numbers("BYMINUTE") or (start.minute,)
    seconds = parts.numbers("BYSECOND") or (start.second,)
    return _times_of_day(hours, minutes, seconds)


@lru_cache(maxsize=256)
def _times_of_day(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> tuple[time, ...]:
    return tuple(sorted({time(*one) for one in product(hours, minutes, seconds)}))


def _refuse_large_sets(parts: Parts) -> None:
    if "BYSETPOS" not in parts.by:
        return
    times = 1
    for name in _TIMES:
        times *= max(1, len(set(parts.numbers(name))))
    weekdays = len(set(parts.by.get("BYDAY", ()))) or 7
    days = min(_DAYS_OF_PERIOD[parts.freq], weekdays if parts.freq == "WEEKLY" else 366)
    size = times * days
    if min(map(abs, parts.numbers("BYSETPOS"))) > size:
        raise InvalidRule(f"BYSETPOS picks from {size} times in a period and none of its positions exists; correct it.")
    if size > LARGEST_SET:
        raise InvalidRule(
            f"BYSETPOS picks from up to {size:,} times in a period, more than {LARGEST_SET:,}; "
            "use fewer BYHOUR, BYMINUTE or BYSECOND."
        )


def _dateutil(text: str, start: datetime) -> Iterator[datetime]:
    try:
        # Only naive times go in: with aware ones dateutil returns times that do not exist.
        return iter(rrulestr(text, dtstart=start))
    except ValueError as error:
        raise InvalidRule(f"Rule {text!r} cannot be read: {error}; correct that part.") from None


def _explicit(parts: Parts, start: datetime, without: tuple[str, ...] = ()) -> str:
    """The rule text with the day that DTSTART implies spelled out, so that DTSTART may move."""
    text = parts.endless(without)
    if {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & parts.by.keys() or parts.freq == "DAILY":
        return text
    if parts.freq == "WEEKLY" or "BYWEEKNO" in parts.by:  # RFC 5545: the day of DTSTART; dateutil would take all seven
        return f"{text};BYDAY={CODES[start.weekday()]}"
    month = f";BYMONTH={start.month}" if parts.freq == "YEARLY" and "BYMONTH" not in parts.by else ""
    return f"{text}{month};BYMONTHDAY={start.day}"


def _enter(parts: Parts, start: datetime, after: datetime) -> datetime:
    """A start at least one whole period before `after`, in step with the real one."""
    if parts.freq in ("DAILY", "WEEKLY"):
        step = parts.interval * (A_DAY if parts.freq == "DAILY" else A_WEEK)
        return start + max(0, (after - start) // step - 1) * step
    step_months = parts.interval * (12 if parts.freq == "YEARLY" else 1)
    months = (after.year - start.year) * 12 + after.month - start.month
    ahead = max(0, months // step_months - 1) * step_months
    if not ahead:
        return start
    month = start.year * 12 + start.month - 1 + ahead
    return start.replace(year=month // 12, month=1 if parts.freq == "YEARLY" else month % 12 + 1, day=1)
