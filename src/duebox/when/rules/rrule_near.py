"""Recurrence by dateutil, entered close to the time asked for.

dateutil walks from DTSTART at every question: ten years of a weekly rule cost milliseconds. A rule without its
limits repeats period by period, so it may start in any later period that is a whole number of steps away.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dateutil.rrule import rrulestr

from duebox.when.errors import InvalidRule
from duebox.when.rules.rrule_text import Parts
from duebox.when.rules.weekdays import CODES
from duebox.when.times import A_DAY, A_WEEK, LAST_YEAR

_YEARS_TO_SEARCH = 100


def locals_from_near(parts: Parts, start: datetime, after: datetime) -> Iterator[datetime]:
    """The rule's local times after a local time and not before its start."""
    near = _enter(parts, start, after)
    for local in _dateutil(_explicit(parts, start), near):
        if local.year > LAST_YEAR:
            return
        if local > after and local >= start:
            yield local


def first_match(parts: Parts, start: datetime) -> datetime | None:
    """The first local time of the rule, if there is one in a century."""
    last = start.replace(year=min(start.year + _YEARS_TO_SEARCH, LAST_YEAR), day=1)
    return next(_dateutil(f"{parts.endless()};UNTIL={last:%Y%m%dT%H%M%S}", start), None)


def _dateutil(text: str, start: datetime) -> Iterator[datetime]:
    try:
        # Only naive times go in: with aware ones dateutil returns times that do not exist.
        return iter(rrulestr(text, dtstart=start))
    except ValueError as error:
        raise InvalidRule(f"Rule {text!r} cannot be read: {error}; correct that part.") from None


def _explicit(parts: Parts, start: datetime) -> str:
    """The rule text with the day that DTSTART implies spelled out, so that DTSTART may move."""
    if {"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"} & parts.by.keys() or parts.freq == "DAILY":
        return parts.endless()
    if parts.freq == "WEEKLY":
        return f"{parts.endless()};BYDAY={CODES[start.weekday()]}"
    month = f";BYMONTH={start.month}" if parts.freq == "YEARLY" and "BYMONTH" not in parts.by else ""
    return f"{parts.endless()}{month};BYMONTHDAY={start.day}"


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
