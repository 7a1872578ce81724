"""From a wall clock reading to instants: the only place where local time becomes UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.errors import NonexistentTime, RepeatedTime
from duebox.when.policy import Fold, Gap, choose
from duebox.when.times import A_DAY, instant, wall


class How(StrEnum):
    """How a local time became an instant."""

    EXACT = "exact"
    GAP_SHIFTED_FORWARD = "gap_shifted_forward"
    GAP_SHIFTED_BACKWARD = "gap_shifted_backward"
    GAP_NEXT_VALID = "gap_next_valid"
    FOLD_FIRST = "fold_first"
    FOLD_SECOND = "fold_second"
    ELAPSED = "elapsed"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An instant, and how the wall clock led to it."""

    instant: datetime
    how: How


def resolve(
    local: datetime, zone: str | ZoneInfo, *, gap: Gap | str = Gap.SHIFT_FORWARD, fold: Fold | str = Fold.FIRST
) -> tuple[Resolved, ...]:
    """The instants at which clocks in the zone show this local time: one, none (`skip`) or two (`both`).

    >>> resolve(datetime(2026, 3, 8, 2, 30), "America/New_York")[0].how
    <How.GAP_SHIFTED_FORWARD: 'gap_shifted_forward'>
    """
    rules = zones.current().zone(zone) if isinstance(zone, str) else zone
    local = wall(local, "The local time to resolve")
    first, second = _offset(rules, local), _offset(rules, local.replace(fold=1))
    if first == second:
        return (Resolved(_utc(local, first), How.EXACT),)
    if first > second:
        return _resolve_fold(local, rules, first, second, choose(Fold, fold))
    return _resolve_gap(local, rules, first, second, choose(Gap, gap))


def start_of_day(day: date, zone: str) -> datetime:
    """The first instant of a local date, which is not always midnight.

    A date that the zone skipped whole (Apia, 2011-12-30) starts when the next one does.
    """
    return resolve(datetime.combine(day, time()), zone, gap=Gap.NEXT_VALID)[0].instant


def local_time(moment: datetime, zone: str | ZoneInfo) -> datetime:
    """What clocks in the zone show at an instant, as a naive local time."""
    rules = zones.current().zone(zone) if isinstance(zone, str) else zone
    return instant(moment).astimezone(rules).replace(tzinfo=None, fold=0)


def nearby_offsets(rules: ZoneInfo, local: datetime) -> tuple[timedelta, timedelta]:
    """The lowest and highest UTC offset within a day of a local time.

    No zone ever changed by more than a day, so a time whose two offsets are equal lies next to no gap or fold.
    """
    # A gap still ahead shows in the later reading only, one just passed in the earlier.
    around = (
        _offset(rules, local - A_DAY),
        _offset(rules, local),
        _offset(rules, (local + A_DAY).replace(fold=1)),
    )
    return min(around), max(around)


def _offset(rules: ZoneInfo, local: datetime) -> timedelta:
    found = rules.utcoffset(local)
    assert found is not None
    return found


def _utc(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=UTC)


def _resolve_fold(
    local: datetime, rules: ZoneInfo, first: timedelta, second: timedelta, fold: Fold
) -> tuple[Resolved, ...]:
    early = Resolved(_utc(local, first), How.FOLD_FIRST)
    late = Resolved(_utc(local, second), How.FOLD_SECOND)
    match fold:
        case Fold.FIRST:
            return (early,)
        case Fold.SECOND:
            return (late,)
        case Fold.BOTH:
            return (early, late)
        case Fold.REJECT:
            raise RepeatedTime(local, rules.key)


def _resolve_gap(
    local: datetime, rules: ZoneInfo, before: timedelta, after: timedelta, gap: Gap
) -> tuple[Resolved, ...]:
    match gap:
        case Gap.SHIFT_FORWARD:
            return (Resolved(_utc(local, before), How.GAP_SHIFTED_FORWARD),)
        case Gap.SHIFT_BACKWARD:
            return (Resolved(_utc(local, after), How.GAP_SHIFTED_BACKWARD),)
        case Gap.NEXT_VALID:
            return (Resolved(_end_of_gap(local, rules, before, after), How.GAP_NEXT_VALID),)
        case Gap.SKIP:
            return ()
        case Gap.REJECT:
            raise NonexistentTime(local, rules.key)


def _end_of_gap(local: datetime, rules: ZoneInfo, before: timedelta, after: timedelta) -> datetime:
    # The jump lies after the instant read with the later offset and not after the one read with the earlier.
    # Zone files count whole seconds, so a search by halves over seconds finds it.
    start = _utc(local.replace(microsecond=0), after)
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        moment = start + timedelta(seconds=middle)
        if moment.astimezone(rules).utcoffset() == before:
            low = middle
        else:
            high = middle
    return start + timedelta(seconds=high)
