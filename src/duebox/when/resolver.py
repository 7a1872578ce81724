"""From local time to instants: the only module where local time becomes UTC. `Occurrence` holds both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.errors import NonexistentTime, RepeatedTime
from duebox.when.policy import Fold, Gap, choose
from duebox.when.times import A_DAY, NO_TIME, instant, short, wall


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
    """The local time in the zone at an instant, as a naive datetime."""
    rules = zones.current().zone(zone) if isinstance(zone, str) else zone
    return instant(moment).astimezone(rules).replace(tzinfo=None, fold=0)


def nearby_offsets(rules: ZoneInfo, local: datetime) -> tuple[timedelta, timedelta]:
    """The lowest and highest UTC offset within a day of a local time.

    No zone ever changed by more than a day, so when both are equal, no gap or fold is near.
    """
    # A gap ahead changes the offset of the day after only, one just passed that of the day before.
    around = (_offset(rules, local - A_DAY), _offset(rules, local), _offset(rules, (local + A_DAY).replace(fold=1)))
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
    if fold is Fold.REJECT:
        raise RepeatedTime(local, rules.key)
    early = Resolved(_utc(local, first), How.FOLD_FIRST)
    late = Resolved(_utc(local, second), How.FOLD_SECOND)
    return {Fold.FIRST: (early,), Fold.SECOND: (late,), Fold.BOTH: (early, late)}[fold]


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
    # The change is between the instants of the local time with the later and with the earlier offset. Zone files have
    # whole seconds, so a binary search over seconds finds it.
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


# The end of the key of the second instant of a repeated time, where both fire.
SECOND = "#2"


class Moved(StrEnum):
    """Why an occurrence is not on the date of its rule."""

    LEAP = "leap_moved"
    CALENDAR = "calendar_moved"


@dataclass(frozen=True, slots=True)
class Nominal:
    """A local time of a rule, before it is resolved in a zone.

    `key` is set by rules whose occurrences are identified by something else than their time: a birthday by its year.
    """

    local: datetime
    key: str = ""
    moved: Moved | None = None

    def identity(self) -> str:
        """The key of the occurrence, the same in every zone and every release of the zone database."""
        return self.key or short(self.local)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence: its key, the local time of the rule, and the instant at which it fires.

    `key` stays the same when a zone, a zone release or a flex window changes the instant. Keys of one rule sort in the
    order of its occurrences; those of instants do so without their Z.
    """

    key: str
    nominal: datetime
    instant: datetime
    how: How
    moved: Moved | None = None
    spread: timedelta = NO_TIME

    @property
    def marks(self) -> tuple[str, ...]:
        """What a preview should point out; empty for an ordinary occurrence."""
        moved = (self.moved.value,) if self.moved else ()
        unusual = () if self.how in (How.EXACT, How.ELAPSED) else (self.how.value,)
        return moved + unusual


def elapsed_key(moment: datetime) -> str:
    """The key of an occurrence that is identified by its instant."""
    return short(moment.replace(tzinfo=None)) + "Z"
