"""Recurrence rules of RFC 5545 and RFC 7529: a text, a first local time and excluded times.

dateutil starts at DTSTART for every query: ten years of a weekly rule cost milliseconds. A rule without its limits
repeats period by period, so the search may start in any later period that is a whole number of steps away.
dateutil finds the dates; the times of day are combined with them here, so that a rule with many times a day does not
cost an iteration over all of them. Only BYSETPOS, which counts dates and times together, is left to dateutil.
Daily and weekly rules, in which BY parts are filters, are expanded here: dateutil takes 130 µs for each day.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from duebox.when import zones
from duebox.when.errors import InvalidRule
from duebox.when.offsets import date_in_month
from duebox.when.policy import Gap, Leap, choose
from duebox.when.resolver import Moved, Nominal, local_time, resolve
from duebox.when.rrule_parse import ELAPSED_FREQUENCIES, Exdate, Parts, canonical, parse, read_exdate, read_lines
from duebox.when.rules import CODES, ElapsedRule, Rule, WallRule
from duebox.when.times import A_DAY, A_WEEK, FIRST_INSTANT, LAST_INSTANT, LAST_YEAR, read, wall, write

_YEARS_TO_SEARCH = 100
# dateutil makes the whole set of a period to pick from it.
LARGEST_SET = 20_000
_DAYS_OF_PERIOD = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
_TIMES = ("BYHOUR", "BYMINUTE", "BYSECOND")
LAST_LOCAL = datetime(LAST_YEAR, 12, 31)


def locals_from_near(parts: Parts, start: datetime, after: datetime) -> Iterator[datetime]:
    """The rule's local times after a local time and not before its start."""
    for local in _locals(parts, start, _start_near(parts, start, after), after):
        if local.year > LAST_YEAR:
            return
        if local > after and local >= start:
            yield local


def first_match(parts: Parts, start: datetime) -> datetime | None:
    """The first local time of the rule, if there is one in a century."""
    _refuse_large_sets(parts)
    last = start.replace(year=min(start.year + _YEARS_TO_SEARCH, LAST_YEAR), month=12, day=31)
    if _is_expanded_here(parts) and next(_expanded_dates(parts, start, start, last), None) is None:
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
    if _is_expanded_here(parts):
        days = _expanded_dates(parts, start, max(midnight, _start_near(parts, midnight, after)))
    else:
        days = _dateutil(_explicit(parts, start, without=_TIMES) + until, midnight)
    for day in days:
        if day.date() >= after.date():
            yield from (datetime.combine(day, at) for at in times)


def _is_expanded_here(parts: Parts) -> bool:
    return parts.freq in ("DAILY", "WEEKLY") and "BYWEEKNO" not in parts.by


def _expanded_dates(parts: Parts, start: datetime, near: datetime, last: datetime = LAST_LOCAL) -> Iterator[datetime]:
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
    """The times of day of the rule, sorted."""
    implied = (start.hour, start.minute, start.second)
    return _times_of_day(*(parts.numbers(name) or (value,) for name, value in zip(_TIMES, implied, strict=True)))


@lru_cache(maxsize=256)
def _times_of_day(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> tuple[time, ...]:
    return tuple(sorted({time(*one) for one in product(hours, minutes, seconds)}))


def _refuse_large_sets(parts: Parts) -> None:
    if "BYSETPOS" not in parts.by:
        return
    times = prod(max(1, len(set(parts.numbers(name)))) for name in _TIMES)
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
    """The rule text with the day that DTSTART implies, so that another DTSTART can be used."""
    text = parts.endless(without)
    if {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & parts.by.keys() or parts.freq == "DAILY":
        return text
    if parts.freq == "WEEKLY" or "BYWEEKNO" in parts.by:  # RFC 5545: the day of DTSTART; dateutil would take all seven
        return f"{text};BYDAY={CODES[start.weekday()]}"
    month = f";BYMONTH={start.month}" if parts.freq == "YEARLY" and "BYMONTH" not in parts.by else ""
    return f"{text}{month};BYMONTHDAY={start.day}"


def _start_near(parts: Parts, start: datetime, after: datetime) -> datetime:
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


_STEPS = {"HOURLY": timedelta(hours=1), "MINUTELY": timedelta(minutes=1)}
_FILTERS = {"BYMONTH", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE", "WKST"}
AN_HOUR = timedelta(hours=1)
# A rule that does not match within so many steps is refused; 20,000 steps take about 0.1 s. Months, days and hours that
# do not match are one step each, so February 29 on a Sunday, which may take 40 years to come back, needs about 2,000.
MAX_STEPS = 20_000


def check(parts: Parts, start: datetime) -> None:
    """Refuse BY parts that are not filters, and filters that never match."""
    for name in parts.by.keys() - _FILTERS:
        raise InvalidRule(f"{name} is not supported with FREQ={parts.freq}; use FREQ=DAILY or a cron expression.")
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
    first = resolve(start, rules)[0].instant
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


def can_miss(parts: Parts) -> bool:
    """Whether the rule can have a date that a month lacks."""
    if parts.freq not in ("MONTHLY", "YEARLY") or {"BYYEARDAY", "BYWEEKNO"} & parts.by.keys():
        return False
    return "BYMONTHDAY" in parts.by or "BYDAY" not in parts.by


def expand(parts: Parts, start: datetime, leap: Leap, after: datetime) -> Iterator[Nominal]:
    """The rule's local times after a local time, missing dates moved."""
    times = times_of_day(parts, start)
    last = max(after, start.replace(microsecond=0) - datetime.resolution)
    for months in _periods(parts, start, after):
        dates = _dates(parts, start, leap, months)
        instances = [(datetime.combine(found, at), moved) for (found, moved), at in product(dates.items(), times)]
        for local, moved in _at_positions(instances, parts.numbers("BYSETPOS")):
            # Two dates moved onto one day are one instance.
            if local > last:
                last = local
                yield Nominal(local, moved=Moved.LEAP if moved else None)


def _periods(parts: Parts, start: datetime, after: datetime) -> Iterator[list[tuple[int, int]]]:
    step = parts.interval * (12 if parts.freq == "YEARLY" else 1)
    first = start.year * 12 + (start.month - 1 if parts.freq == "MONTHLY" else 0)
    # One month back: a date moved forward lies in the month after its period.
    wanted = after.year * 12 + after.month - 2
    month = first + max(0, (wanted - first) // step) * step
    while month // 12 <= LAST_YEAR:
        span = range(12) if parts.freq == "YEARLY" else range(1)
        yield [((month + ahead) // 12, (month + ahead) % 12 + 1) for ahead in span]
        month += step


def _dates(parts: Parts, start: datetime, leap: Leap, months: list[tuple[int, int]]) -> dict[date, bool]:
    is_implied = parts.freq == "YEARLY" and "BYMONTHDAY" not in parts.by
    wanted = parts.numbers("BYMONTH") or ((start.month,) if is_implied else ())
    numbers = parts.numbers("BYMONTHDAY") or (start.day,)
    weekdays = {CODES.index(code[-2:]) for code in parts.by.get("BYDAY", ())}
    found: dict[date, bool] = {}
    for (year, month), number in product(months, numbers):
        if wanted and month not in wanted:
            continue
        landed = date_in_month(year, month, number, leap)
        if landed and (not weekdays or landed.weekday() in weekdays):
            moved = landed.day != number > 0
            found[landed] = found.get(landed, True) and moved
    return dict(sorted(found.items()))


def _at_positions(instances: list[tuple[datetime, bool]], positions: tuple[int, ...]) -> list[tuple[datetime, bool]]:
    if not positions:
        return instances
    count = len(instances)
    picked = {at - 1 if at > 0 else count + at for at in positions}
    return [instances[at] for at in sorted(picked) if 0 <= at < count]


# The end of a COUNT is found by a walk, once in each process: 10,000 occurrences take about 0.1 s.
MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Rule):
    """The fields of all recurrence rules.

    An EXDATE is a local time, an instant, or a date, which excludes a whole local day. It counts toward COUNT; a time
    that the gap policy skips does not.
    """

    kind: ClassVar[str] = "rrule"
    text: str
    start: datetime
    exdates: tuple[Exdate, ...] = ()
    leap: Leap = Leap.OMIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical(self.text))
        object.__setattr__(self, "start", wall(self.start, "The rule's start").replace(microsecond=0))
        object.__setattr__(self, "leap", self.parts.leap or choose(Leap, self.leap))
        _check(self.text, self.start, self.leap)

    @property
    def parts(self) -> Parts:
        """The rule text taken apart."""
        return parse(self.text)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RRule | HourlyRRule:
        return rrule(**{**data, "start": read(data["start"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RRule(Recurrence, WallRule):
    """A daily or coarser rule, which follows the wall clock."""

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time, without COUNT, UNTIL and EXDATE."""
        if self.leap is not Leap.OMIT and can_miss(self.parts):
            return expand(self.parts, self.start, self.leap, after)
        return map(Nominal, locals_from_near(self.parts, self.start, after))


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyRRule(Recurrence, ElapsedRule):
    """An hourly or finer rule, which follows elapsed time."""

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, without COUNT, UNTIL and EXDATE."""
        return instants(self.parts, self.start, after, rules)

    def last_by_arithmetic(self, rules: ZoneInfo) -> datetime | None:
        """The last instant of a COUNT, where it can be calculated because no filter applies."""
        if self.parts.count is None or is_filtered(self.parts):
            return None
        first, step = resolve(self.start, rules)[0].instant, step_of(self.parts)
        return first + min(self.parts.count - 1, (LAST_INSTANT - first) // step) * step


def rrule(
    text: str, *, start: datetime | None = None, exdates: Sequence[Exdate | str] = (), leap: Leap | str = Leap.OMIT
) -> RRule | HourlyRRule:
    """A recurrence rule: `rrule("FREQ=WEEKLY;BYDAY=MO", start=datetime(2026, 1, 5, 9))`.

    The text may also be several lines with DTSTART, RRULE and EXDATE in local time. `leap` is what SKIP says in
    the text: months and years without the date leave it out, or move it back or forward.
    """
    rule, dtstart, excluded = read_lines(text)
    start = start or dtstart
    if start is None:
        raise InvalidRule(f"Rule {rule!r} has no first local time; pass start=datetime(...).")
    kind = HourlyRRule if parse(canonical(rule)).freq in ELAPSED_FREQUENCIES else RRule
    excluded = [*map(read_exdate, exdates), *excluded]
    return kind(text=rule, start=start, exdates=tuple(excluded), leap=choose(Leap, leap))


@lru_cache(maxsize=4096)
def _check(text: str, start: datetime, leap: Leap) -> None:
    parts = parse(text)
    by_arithmetic = parts.freq in ELAPSED_FREQUENCIES and not is_filtered(parts)
    if parts.count is not None and parts.count > MAX_COUNT and not by_arithmetic:
        raise InvalidRule(f"COUNT={parts.count} is more than {MAX_COUNT:,}, which takes long to count; use UNTIL.")
    first = _first(parts, start, leap)
    if first is None:
        raise InvalidRule(f"Rule {text!r} from {write(start)} never matches; correct its BY parts.")
    # UNTIL may be in UTC and the zone is not known here, so a first match within a day of it is accepted.
    if parts.until and first > parts.until.replace(tzinfo=None) + A_DAY:
        raise InvalidRule(f"Rule {text!r} ends before its first match, {write(first)}; move UNTIL.")


def _first(parts: Parts, start: datetime, leap: Leap) -> datetime | None:
    if parts.freq in ELAPSED_FREQUENCIES:
        check(parts, start)
        return start
    if leap is not Leap.OMIT and can_miss(parts):
        found = next(expand(parts, start, leap, datetime.min), None)
        return found.local if found else None
    return first_match(parts, start)
