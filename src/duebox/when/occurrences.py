"""The questions asked of a timetable: what comes next, and what lies between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.business import LONGEST_CLOSURE, calendar
from duebox.when.errors import WhenError
from duebox.when.flex import spread
from duebox.when.limits import (
    CountEnd,
    before_end,
    count_instances,
    from_start,
    on_open_days,
    recurrence_limits,
    up_to,
)
from duebox.when.occurrence import Occurrence, elapsed_key
from duebox.when.offsets import at_offset
from duebox.when.order import Reading, in_order
from duebox.when.policy import Closed, Fold, Gap, Leap
from duebox.when.resolver import How, local_time, nearby_offsets
from duebox.when.rules.anniversary import Anniversary
from duebox.when.rules.base import ElapsedRule, WallRule
from duebox.when.rules.reminder import Reminder
from duebox.when.rules.rrule import HourlyRRule, Recurrence
from duebox.when.times import A_DAY, FIRST_INSTANT, LAST_YEAR, NO_TIME, nearest_instant
from duebox.when.timetable import Timetable, keeps_the_wall_clock

_LEAP_YEAR = 2000


def next_after(table: Timetable, after: datetime, *, seed: str = "") -> Occurrence | None:
    """The first occurrence strictly after an instant, or None when the timetable has ended.

    `seed` names the schedule, and thereby its place in the flex window.
    """
    if isinstance(table.rule, Anniversary) and _is_plain(table):
        return _next_anniversary(table, table.rule, nearest_instant(after, "The instant to look after"))
    return next(upcoming(table, after, seed=seed), None)


def _is_plain(table: Timetable) -> bool:
    return not (table.start or table.end or table.calendar or table.flex or table.remaining is not None)


def _next_anniversary(table: Timetable, rule: Anniversary, after: datetime) -> Occurrence | None:
    """The same by a shorter way: a million people share a few thousand pairs of birthday and zone."""
    policies = (zones.current().zone(table.zone), table.gap, table.fold, rule.of.month, rule.of.day, rule.at, rule.leap)
    # At the turn of the year a zone may still be in the old one, by less than two days.
    first = after.year - 1 if (after.month, after.day) <= (1, 2) else after.year
    for year in range(max(rule.of.year + 1, first), LAST_YEAR + 1):
        for one in _anniversary(*policies, year):
            if one.instant > after:
                return one
    return None


@lru_cache(maxsize=100_000)
def _anniversary(
    rules: ZoneInfo, gap: Gap, fold: Fold, month: int, day: int, at: time, leap: Leap, year: int
) -> tuple[Occurrence, ...]:
    nominal = Anniversary(of=date(_LEAP_YEAR, month, day), at=at, leap=leap).in_year(year)
    return tuple(Reading(rules, gap, fold).occurrences(nominal)) if nominal else ()


def between(table: Timetable, start: datetime, end: datetime, *, seed: str = "") -> Iterator[Occurrence]:
    """The occurrences from an instant up to, not including, another: neighbouring spans share none."""
    last = nearest_instant(end, "The end")
    if last < (first := nearest_instant(start, "The start")):
        raise WhenError(f"The end {last} is before the start {first}; swap them.")
    found = upcoming(table, first - timedelta.resolution, seed=seed)
    return takewhile(lambda one: one.instant < last, found)


def upcoming(table: Timetable, after: datetime, *, seed: str = "") -> Iterator[Occurrence]:
    """All occurrences strictly after an instant, each later than the one before. May never end."""
    delay = spread(seed, table.flex) if table.flex else NO_TIME
    since = max(nearest_instant(after, "The instant to look after") - delay, FIRST_INSTANT)
    found = (one for one in _series(table, since) if one.instant > since)
    if table.remaining is not None:
        found = islice(found, table.remaining)  # type: ignore[assignment]
    if delay:
        return (replace(one, instant=one.instant + delay, spread=delay) for one in found)
    return found


def _series(table: Timetable, since: datetime) -> Iterator[Occurrence]:
    if table.calendar and table.closed is Closed.SKIP:
        return on_open_days(partial(_within_limits, table), since, calendar(table.calendar), table.zone)
    return _within_limits(table, since)


def _within_limits(table: Timetable, since: datetime) -> Iterator[Occurrence]:
    rule = table.rule
    found = _raw(table, _not_before(table, since))
    if isinstance(rule, Recurrence):
        if rule.parts.count is not None:
            found = up_to(found, _end_of_count(zones.current(), _for_counting(table)))
        found = recurrence_limits(found, rule)
    if table.start or table.end:
        rules = zones.current().zone(table.zone)
        found = before_end(from_start(found, table.start, rules), table.end, rules)
    return found


def _for_counting(table: Timetable) -> Timetable:
    """The table without what has no influence on which occurrences a COUNT includes."""
    return replace(table, start=None, end=None, remaining=None, flex=NO_TIME)


@lru_cache(maxsize=4096)
def _end_of_count(database: zones.ZoneDatabase, table: Timetable) -> CountEnd:
    """Where COUNT ends, found once for each rule and zone and not at each question."""
    rule = table.rule
    assert isinstance(rule, Recurrence)
    assert rule.parts.count is not None
    if isinstance(rule, HourlyRRule) and (last := rule.last_by_arithmetic(database.zone(table.zone))):
        return CountEnd(last)
    return count_instances(_raw(table, FIRST_INSTANT), rule.parts.count)


def _not_before(table: Timetable, since: datetime) -> datetime:
    if table.start is None:
        return since
    # Well before the bound, wherever the zone's clocks stand; the bound itself is checked on each occurrence.
    reach = 2 * A_DAY + (NO_TIME if table.closed is Closed.SKIP else LONGEST_CLOSURE)
    return max(since, table.start.replace(tzinfo=UTC) - reach)


def _raw(table: Timetable, since: datetime) -> Iterator[Occurrence]:
    rules = zones.current().zone(table.zone)
    if isinstance(table.rule, ElapsedRule):
        for moment in table.rule.instants(since, rules):
            yield Occurrence(elapsed_key(moment), local_time(moment, rules), moment, How.ELAPSED)
        return
    if isinstance(table.rule, Reminder):
        found = at_offset(table.rule.anchor, table.rule.by, table.zone, gap=table.gap, fold=table.fold)
        if found is not None:
            yield replace(found, key=table.rule.key)
        return
    assert isinstance(table.rule, WallRule)
    reading = _reading(table)
    if isinstance(table.rule, Anniversary) and reading.rolls is None:
        # A year apart no clock change disturbs their order; without the care for that they take half the time.
        for nominal in table.rule.nominals(since.replace(tzinfo=None) - 2 * A_DAY):
            yield from reading.occurrences(nominal)
        return
    low, _ = nearby_offsets(rules, local_time(since, rules))
    floor = since.replace(tzinfo=None) + low
    if reading.rolls is not None and table.closed is Closed.FORWARD:
        floor -= LONGEST_CLOSURE
    nominals = takewhile(lambda nominal: nominal.local.year <= LAST_YEAR, table.rule.nominals(floor))
    yield from in_order(nominals, reading)


def _reading(table: Timetable) -> Reading:
    rules = zones.current().zone(table.zone)
    if not keeps_the_wall_clock(table.rule):
        return Reading(rules, Gap.SKIP, Fold.BOTH, elapsed=True)
    rolls = calendar(table.calendar) if table.calendar and table.closed is not Closed.SKIP else None
    return Reading(rules, table.gap, table.fold, rolls=rolls, closed=table.closed)
