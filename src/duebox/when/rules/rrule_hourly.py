"""HOURLY and MINUTELY recurrence: steps of elapsed time, with the BY parts as filters on the local clock."""

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
from duebox.when.times import A_DAY, FIRST_INSTANT, LAST_INSTANT

_STEPS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}
_FILTERS = {"BYMONTH", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE", "WKST"}
AN_HOUR = timedelta(hours=1)
# A rule that does not match within so many steps is refused; 20,000 steps take about 0.1 s. Months, days and hours that
# do not match are one step each, so February 29 on a Sunday, which may take 40 years to come back, needs about 2,000.
MAX_STEPS = 20_000


def check(parts: Parts, start: datetime) -> None:
    """Refuse BY parts that are not filters, and filters that never match."""
    for name in parts.by.keys() - _FILTERS:
        raise InvalidRule(f"{name} is not offered with FREQ={parts.freq}; use FREQ=DAILY or a cron expression.")
    for code in parts.by.get("BYDAY", ()):
        if len(code) > 2:
            raise InvalidRule(f"BYDAY={code} needs a month or a year; use BYDAY={code[-2:]} with FREQ={parts.freq}.")
    before = max(start.replace(tzinfo=UTC) - A_DAY, FIRST_INSTANT)
    if next(instants(parts, start, before, zones.current().zone("UTC")), None) is None:
        raise _never_matches(parts)


def is_filtered(parts: Parts) -> bool:
    """Whether BY parts leave out steps or widen them."""
    return bool(parts.by.keys() - {"WKST"})


def instants(parts: Parts, start: datetime, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
    """The instants after an instant, counted in elapsed time from the start."""
    first = first_instant(start, rules)
    step = step_of(parts)
    number, last = max(0, (after - first) // step), (LAST_INSTANT - first) // step
    left = MAX_STEPS
    while number <= last:
        moment = first + number * step
        local = local_time(moment, rules)
        skip_to = _next_candidate(parts, moment, local, rules)
        if skip_to is not None:
            number = max(number + 1, -((first - skip_to) // step))
        else:
            for found in _in_step(parts, moment, local):
                if found > after and found >= first:
                    left = MAX_STEPS
                    yield found
            number += 1
        left -= 1
        if left < 0:
            raise _never_matches(parts)


def first_instant(start: datetime, rules: ZoneInfo) -> datetime:
    """The instant that the steps are counted from."""
    return resolve(start, rules)[0].instant


def step_of(parts: Parts) -> timedelta:
    """The time between two steps."""
    return _STEPS[parts.freq] * parts.interval


def _next_candidate(parts: Parts, moment: datetime, local: datetime, rules: ZoneInfo) -> datetime | None:
    """Where to look next if the local month, day or hour does not match; None if all of them do."""
    months = parts.numbers("BYMONTH")
    if months and local.month not in months:
        return _midnight(local.replace(day=1) + monthrange(local.year, local.month)[1] * A_DAY, rules)
    if not _day_matches(parts, local):
        return _midnight(local + A_DAY, rules)
    hours = parts.numbers("BYHOUR")
    if not hours or local.hour in hours:
        return None
    next_hour = moment + AN_HOUR - timedelta(minutes=local.minute, seconds=local.second)
    # Clocks that are set back at 00:01 show the hour before once more: then go on step by step.
    same = local_time(next_hour, rules) - local == next_hour - moment
    return next_hour if same else moment


def _day_matches(parts: Parts, local: datetime) -> bool:
    days, weekdays = parts.numbers("BYMONTHDAY"), parts.by.get("BYDAY", ())
    if weekdays and CODES[local.weekday()] not in weekdays:
        return False
    from_end = local.day - monthrange(local.year, local.month)[1] - 1
    return not days or local.day in days or from_end in days


def _in_step(parts: Parts, moment: datetime, local: datetime) -> Iterator[datetime]:
    minutes = parts.numbers("BYMINUTE")
    if parts.freq == "MINUTELY":
        if not minutes or local.minute in minutes:
            yield moment
        return
    # By the hour, minutes widen each step to several times within that local hour.
    for minute in sorted(set(minutes or (local.minute,))):
        yield moment + timedelta(minutes=minute - local.minute)


def _midnight(local: datetime, rules: ZoneInfo) -> datetime:
    if local.year > LAST_INSTANT.year:
        return LAST_INSTANT
    return resolve(datetime.combine(local.date(), time()), rules, gap=Gap.NEXT_VALID)[0].instant


def _never_matches(parts: Parts) -> InvalidRule:
    return InvalidRule(
        f"The BY parts of this FREQ={parts.freq} rule never match together, or not within {MAX_STEPS:,} steps; "
        "correct them."
    )
