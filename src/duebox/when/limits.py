"""Where a series of occurrences begins, ends and has holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from duebox.when.business import LONGEST_CLOSURE, Calendar
from duebox.when.errors import WhenError
from duebox.when.occurrence import SECOND, Moved, Occurrence
from duebox.when.resolver import local_time, start_of_day
from duebox.when.rules.rrule import Recurrence
from duebox.when.rules.rrule_text import Parts
from duebox.when.times import A_DAY, FIRST_INSTANT, LAST_INSTANT, LAST_YEAR, short

# A local time and its instant are never further apart than offset, gap and closed days together.
_SLACK = 3 * A_DAY + LONGEST_CLOSURE
# Ten years.
_DAYS_TO_SEARCH = 3660
_CLOSED_IN_A_ROW = 20


def recurrence_limits(found: Iterator[Occurrence], rule: Recurrence) -> Iterator[Occurrence]:
    """What UNTIL and EXDATE leave of a recurrence. An EXDATE counts toward COUNT, so COUNT is applied before."""
    if rule.parts.until is not None:
        found = _until(found, rule.parts, rule.parts.until)
    if rule.exdates:
        left_out = frozenset(rule.exdates)
        found = (one for one in found if not left_out & {one.nominal, one.nominal.date(), one.instant})
    return found


class CountEnd(NamedTuple):
    """Where a COUNT ends. Both readings of a repeated time are one instance, and the second one may come later than
    the last instance: `names` holds those whose second reading is still included."""

    last: datetime
    names: frozenset[str] = frozenset()


def count_instances(found: Iterator[Occurrence], count: int) -> CountEnd:
    """Walk through the first `count` instances."""
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
    """The local time that a bound is compared with: of an occurrence moved from a closed day, where it moved to."""
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
            kept = one.nominal.date() <= until.date()
        else:
            kept = (one.nominal if until.tzinfo is None else one.instant) <= until
        if kept:
            yield one


def _latest_instant(bound: datetime) -> datetime:
    return bound if bound.tzinfo else bound.replace(tzinfo=UTC) + _SLACK
