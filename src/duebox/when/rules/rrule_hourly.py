"""HOURLY and MINUTELY recurrence: steps of real time, with the BY parts as filters on the local clock."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.errors import InvalidRule
from duebox.when.policy import Gap
from duebox.when.resolver import local_time, resolve
from duebox.when.rules.rrule_text import Parts
from duebox.when.rules.weekdays import CODES
from duebox.when.times import A_DAY, LAST_YEAR

_STEPS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}
_FILTERS = {"BYMONTH", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE", "WKST"}
# Feb 29 on a given weekday can take forty years to come back.
_PATIENCE = timedelta(days=366 * 41)


def check(parts: Parts, start: datetime) -> None:
    """Refuse what makes no sense by the hour, and filters that never match."""
    for name in parts.by.keys() - _FILTERS:
        raise InvalidRule(f"{name} is not offered with FREQ={parts.freq}; use FREQ=DAILY or a cron expression.")
    for code in parts.by.get("BYDAY", ()):
        if len(code) > 2:
            raise InvalidRule(f"BYDAY={code} needs a month or a year; use BYDAY={code[-2:]} with FREQ={parts.freq}.")
    before = start.replace(tzinfo=UTC) - A_DAY
    if next(instants(parts, start, before, zones.current().zone("UTC")), None) is None:
        raise InvalidRule(f"The BY parts of this FREQ={parts.freq} rule never match together; correct them.")


def instants(parts: Parts, start: datetime, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
    """The instants after an instant, counted in real time from the start."""
    first = resolve(start, rules)[0].instant
    step = _STEPS[parts.freq] * parts.interval
    moment = first + max(0, (after - first) // step) * step
    deadline = moment + _PATIENCE
    while moment <= deadline and moment.year <= LAST_YEAR:
        local = local_time(moment, rules)
        if not _day_matches(parts, local):
            moment = _align(first, step, _next_day(local, rules))
            continue
        for found in _in_step(parts, moment, local):
            if found > after and found >= first:
                deadline = found + _PATIENCE
                yield found
        moment += step


def _day_matches(parts: Parts, local: datetime) -> bool:
    months, days = parts.numbers("BYMONTH"), parts.numbers("BYMONTHDAY")
    weekdays = parts.by.get("BYDAY", ())
    if (months and local.month not in months) or (weekdays and CODES[local.weekday()] not in weekdays):
        return False
    from_end = local.day - monthrange(local.year, local.month)[1] - 1
    return not days or local.day in days or from_end in days


def _in_step(parts: Parts, moment: datetime, local: datetime) -> Iterator[datetime]:
    hours, minutes = parts.numbers("BYHOUR"), parts.numbers("BYMINUTE")
    if hours and local.hour not in hours:
        return
    if parts.freq == "MINUTELY":
        if not minutes or local.minute in minutes:
            yield moment
        return
    # By the hour, minutes widen each step to several times within that local hour.
    for minute in sorted(set(minutes or (local.minute,))):
        yield moment + timedelta(minutes=minute - local.minute)


def _next_day(local: datetime, rules: ZoneInfo) -> datetime:
    midnight = datetime.combine(local.date() + A_DAY, time())
    return resolve(midnight, rules, gap=Gap.NEXT_VALID)[0].instant


def _align(first: datetime, step: timedelta, moment: datetime) -> datetime:
    return first - (first - moment) // step * step
