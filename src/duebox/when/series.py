"""The occurrences of a timetable: `next_after`, `between` and `upcoming`, within its limits and in the order in which
they fire.

Close to a gap or a fold, the order of local times and the order of instants differ: 02:30 moved to 03:30 comes after
03:00, and the second 01:00 after the first 01:45. There, occurrences are held back until nothing earlier can follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.errors import WhenError
from duebox.when.offsets import at_offset
from duebox.when.policy import Closed, Fold, Gap, Leap
from duebox.when.resolver import (
    SECOND,
    How,
    Moved,
    Nominal,
    Occurrence,
    elapsed_key,
    local_time,
    nearby_offsets,
    resolve,
    start_of_day,
)
from duebox.when.rrule import HourlyRRule, Recurrence
from duebox.when.rrule_parse import Parts
from duebox.when.rules import Anniversary, ElapsedRule, Reminder, WallRule
from duebox.when.times import A_DAY, FIRST_INSTANT, LAST_INSTANT, LAST_YEAR, NO_TIME, nearest_instant, short
from duebox.when.timetable import LONGEST_CLOSURE, Calendar, Timetable, calendar, follows_wall_clock, open_day


def spread(seed: str, window: timedelta) -> timedelta:
    """A delay within the window, always the same for the same seed, in whole milliseconds.

    The seed is the schedule and not the occurrence, so that the runs of a daily job stay a day apart.
    """
    steps = int(window / timedelta(milliseconds=1))
    if steps <= 0:
        return timedelta(0)
    digest = hashlib.blake2b(seed.encode(), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest) % steps)


# A local time and its instant are never further apart than offset, gap and closed days together.
_SLACK = 3 * A_DAY + LONGEST_CLOSURE
# Ten years.
_DAYS_TO_SEARCH = 3660
_CLOSED_IN_A_ROW = 20


def recurrence_limits(found: Iterator[Occurrence], rule: Recurrence) -> Iterator[Occurrence]:
    """The occurrences that UNTIL and EXDATE allow. An EXDATE counts toward COUNT, so COUNT is applied before."""
    if rule.parts.until is not None:
        found = _until(found, rule.parts, rule.parts.until)
    if rule.exdates:
        excluded = frozenset(rule.exdates)
        found = (one for one in found if not excluded & {one.nominal, one.nominal.date(), one.instant})
    return found


class CountEnd(NamedTuple):
    """Where a COUNT ends. Both readings of a repeated time are one instance, and the second one may come later than
    the last instance: `names` holds those whose second reading is still included."""

    last: datetime
    names: frozenset[str] = frozenset()


def count_instances(found: Iterator[Occurrence], count: int) -> CountEnd:
    """Where the first `count` instances end."""
    names: dict[str, datetime] = {}
    last = FIRST_INSTANT
    for one in found:
        name = one.key.removesuffix(SECOND)
        if name not in names:
            if len(names) == count:
                break
            names[name] = last = one.instant
    else:
        return CountEnd(LAST_INSTANT)
    return CountEnd(last, frozenset(name for name, at in names.items() if last - at <= A_DAY))


def up_to(found: Iterator[Occurrence], end: CountEnd) -> Iterator[Occurrence]:
    """The occurrences that a COUNT includes."""
    for one in found:
        if one.instant <= end.last or one.key.removesuffix(SECOND) in end.names:
            yield one
        elif one.instant - end.last > A_DAY:
            return


def from_start(found: Iterator[Occurrence], start: datetime | None, rules: ZoneInfo) -> Iterator[Occurrence]:
    """The occurrences at or after a bound, local if naive."""
    if start is None:
        return found
    if start.tzinfo is None:
        return (one for one in found if _local(one, rules) >= start)
    return (one for one in found if one.instant >= start)


def before_end(found: Iterator[Occurrence], end: datetime | None, rules: ZoneInfo) -> Iterator[Occurrence]:
    """The occurrences before a bound, local if naive."""
    last = None if end is None else _latest_instant(end)
    for one in found:
        if end is not None and last is not None:
            if one.instant > last:
                return
            if (_local(one, rules) if end.tzinfo is None else one.instant) >= end:
                continue
        yield one


def _local(one: Occurrence, rules: ZoneInfo) -> datetime:
    """The local time that a bound is compared with; for an occurrence moved from a closed day, the new one."""
    return local_time(one.instant, rules) if one.moved is Moved.CALENDAR else one.nominal


def on_open_days(
    series: Callable[[datetime], Iterator[Occurrence]], since: datetime, of: Calendar, zone: str
) -> Iterator[Occurrence]:
    """The occurrences on business days. Long closures are skipped day by day, not occurrence by occurrence."""
    found, closed, closed_since = series(since), 0, since
    while (one := next(found, None)) is not None:
        if of.is_business_day(one.nominal.date()):
            closed, closed_since = 0, one.instant
            yield one
            continue
        closed += 1
        if closed == 1:
            closed_since = one.instant
        elif one.instant - closed_since > _DAYS_TO_SEARCH * A_DAY:
            raise WhenError(
                f"Every occurrence up to {short(one.nominal)} falls on a closed day; "
                "change the rule, or use closed='forward'."
            )
        if closed % _CLOSED_IN_A_ROW == 0:
            opens = start_of_day(_next_open_day(one, of), zone) - A_DAY
            if opens > one.instant:
                found = series(opens)


def _next_open_day(one: Occurrence, of: Calendar) -> date:
    day = one.nominal.date()
    for _ in range(_DAYS_TO_SEARCH):
        day += A_DAY
        if day.year > LAST_YEAR:
            break
        if of.is_business_day(day):
            return day
    raise WhenError(
        f"The calendar is closed for {_DAYS_TO_SEARCH} days after {short(one.nominal)}; change the calendar."
    )


def _until(found: Iterator[Occurrence], parts: Parts, until: datetime) -> Iterator[Occurrence]:
    last = _latest_instant(until + A_DAY)
    for one in found:
        if one.instant > last:
            return
        if parts.until_is_day:
            is_included = one.nominal.date() <= until.date()
        else:
            is_included = (one.nominal if until.tzinfo is None else one.instant) <= until
        if is_included:
            yield one


def _latest_instant(bound: datetime) -> datetime:
    return bound if bound.tzinfo else bound.replace(tzinfo=UTC) + _SLACK


@dataclass(frozen=True, slots=True)
class Reading:
    """How local times become instants: the zone's rules, the policies, and the closed days."""

    rules: ZoneInfo
    gap: Gap
    fold: Fold
    elapsed: bool = False
    rolls: Calendar | None = None
    closed: Closed = Closed.SKIP

    def occurrences(self, nominal: Nominal) -> list[Occurrence]:
        """The occurrences of one local time: none, one, or both instants of a repeated time."""
        landed, moved = self.land(nominal)
        found = resolve(landed, self.rules, gap=self.gap, fold=self.fold)
        return [
            Occurrence(self._key(nominal, one.instant, again), nominal.local, one.instant, one.how, moved)
            for again, one in enumerate(found)
        ]

    def land(self, nominal: Nominal) -> tuple[datetime, Moved | None]:
        """The local time moved to an open day, if closed days move it."""
        if self.rolls is None:
            return nominal.local, nominal.moved
        day = open_day(nominal.local.date(), self.rolls, self.closed)
        if day is None or day == nominal.local.date():
            return nominal.local, nominal.moved
        return datetime.combine(day, nominal.local.time()), Moved.CALENDAR

    def _key(self, nominal: Nominal, instant: datetime, again: int) -> str:
        if self.elapsed:
            return elapsed_key(instant)
        return nominal.identity() + (SECOND if again else "")


def in_order(nominals: Iterator[Nominal], reading: Reading) -> Iterator[Occurrence]:
    """Occurrences by instant, each instant once."""
    waiting: list[tuple[datetime, bool, str, Occurrence]] = []
    for nominal in nominals:
        earliest, is_regular = _earliest(nominal, reading)
        yield from _release(waiting, earliest)
        found = reading.occurrences(nominal)
        if is_regular and not waiting:
            yield from found
            continue
        for one in found:
            unsure = one.how is not How.EXACT or one.moved is not None
            heappush(waiting, (one.instant, unsure, one.key, one))
    yield from _release(waiting, None)


def _earliest(nominal: Nominal, reading: Reading) -> tuple[datetime, bool]:
    """A lower bound for the instants of this and all later local times, and whether no clock change is near."""
    local = nominal.local
    if reading.rolls is not None:
        local = datetime.combine(min(local, reading.land(nominal)[0]).date(), time())
    low, high = nearby_offsets(reading.rules, local)
    return (local - high).replace(tzinfo=UTC), low == high and reading.rolls is None


def _release(waiting: list[tuple[datetime, bool, str, Occurrence]], earliest: datetime | None) -> Iterator[Occurrence]:
    while waiting and (earliest is None or waiting[0][0] < earliest):
        first = heappop(waiting)
        # Of several with the same instant only the first is used; unmoved ones sort first.
        while waiting and waiting[0][0] == first[0]:
            heappop(waiting)
        yield first[3]


_LEAP_YEAR = 2000


def next_after(table: Timetable, after: datetime, *, seed: str = "") -> Occurrence | None:
    """The first occurrence strictly after an instant, or None when the timetable has ended.

    `seed` names the schedule, and thereby its place in the flex window.
    """
    is_limited = table.start or table.end or table.calendar or table.flex or table.remaining is not None
    if isinstance(table.rule, Anniversary) and not is_limited:
        return _next_anniversary(table, table.rule, nearest_instant(after, "The instant to look after"))
    return next(upcoming(table, after, seed=seed), None)


def _next_anniversary(table: Timetable, rule: Anniversary, after: datetime) -> Occurrence | None:
    """A faster way for anniversaries: a million people share a few thousand pairs of birthday and zone."""
    of, rules = rule.of, zones.current().zone(table.zone)
    # The date may differ by a day between zones, and a date that the year lacks is moved by a day. So four days ago is
    # past in any case, and at the turn of the year the old year may still count.
    before = after - 4 * A_DAY
    first = before.year + 1 if (of.month, of.day) < (before.month, before.day) else before.year
    for year in range(max(of.year + 1, first), LAST_YEAR + 1):
        for one in _anniversary(rules, table.gap, table.fold, of.month, of.day, rule.at, rule.leap, year):
            if after < one.instant <= LAST_INSTANT:
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
    if table.calendar and table.closed is Closed.SKIP:
        found = on_open_days(partial(_within_limits, table), since, calendar(table.calendar), table.zone)
    else:
        found = _within_limits(table, since)
    # West of Greenwich the last hours of the last year have instants outside the calendar.
    inside = takewhile(lambda one: one.instant <= LAST_INSTANT, found)
    found = (one for one in inside if one.instant > since)
    if table.remaining is not None:
        found = islice(found, table.remaining)
    if delay:
        return (replace(one, instant=one.instant + delay, spread=delay) for one in found)
    return found


def _within_limits(table: Timetable, since: datetime) -> Iterator[Occurrence]:
    rule = table.rule
    found = _raw(table, _not_before(table, since))
    if isinstance(rule, Recurrence):
        if rule.parts.count is not None:
            # Start, end, remaining and flex have no influence on which occurrences a COUNT includes.
            counted = replace(table, start=None, end=None, remaining=None, flex=NO_TIME)
            found = up_to(found, _end_of_count(zones.current(), counted))
        found = recurrence_limits(found, rule)
    if table.start or table.end:
        rules = zones.current().zone(table.zone)
        found = before_end(from_start(found, table.start, rules), table.end, rules)
    return found


@lru_cache(maxsize=4096)
def _end_of_count(database: zones.ZoneDatabase, table: Timetable) -> CountEnd:
    """Where COUNT ends; cached, because it takes an iteration over all instances."""
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
        # A year apart, no clock change affects their order; without sorting they take half the time.
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
    if not follows_wall_clock(table.rule):
        return Reading(rules, Gap.SKIP, Fold.BOTH, elapsed=True)
    rolls = calendar(table.calendar) if table.calendar and table.closed is not Closed.SKIP else None
    return Reading(rules, table.gap, table.fold, rolls=rolls, closed=table.closed)
