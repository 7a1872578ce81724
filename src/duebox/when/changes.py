"""When clocks change, and where two zone databases do not agree about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.times import instant
from duebox.when.zones import ZoneDatabase

# Changes that are undone within this span go unseen; the shortest on record, around Ramadan, last four weeks.
_STRIDE = timedelta(days=10)
_A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """An instant at which clocks jump, and the UTC offset on either side."""

    instant: datetime
    before: timedelta
    after: timedelta


def clock_changes(
    zone: str, start: datetime, end: datetime, *, database: ZoneDatabase | None = None
) -> list[ClockChange]:
    """The clock changes of a zone after an instant and up to another."""
    rules = (database or zones.current()).zone(zone)
    begin, last = instant(start, "The start"), instant(end, "The end")
    strides = max(0, (last - begin) // _STRIDE) + 1
    marks = [begin + step * _STRIDE for step in range(strides)] + [last]
    spans = [(low, high) for low, high in pairwise(marks) if _offset(rules, low) != _offset(rules, high)]
    return [_change_within(rules, low, high) for low, high in spans]


def disagreements(one: ZoneDatabase, other: ZoneDatabase, start: datetime, end: datetime) -> list[str]:
    """The zones both databases know and for which their clocks differ between two instants."""
    return sorted(
        name for name in one.names & other.names if _story(one, name, start, end) != _story(other, name, start, end)
    )


def _story(database: ZoneDatabase, name: str, start: datetime, end: datetime) -> tuple[timedelta, list[ClockChange]]:
    return _offset(database.zone(name), start), clock_changes(name, start, end, database=database)


def _change_within(rules: ZoneInfo, low: datetime, high: datetime) -> ClockChange:
    before, after = _offset(rules, low), _offset(rules, high)
    while high - low > _A_SECOND:
        middle = low + (high - low) // 2
        low, high = (middle, high) if _offset(rules, middle) == before else (low, middle)
    return ClockChange(high.replace(microsecond=0), before, after)


def _offset(rules: ZoneInfo, moment: datetime) -> timedelta:
    found = moment.astimezone(rules).utcoffset()
    assert found is not None
    return found
