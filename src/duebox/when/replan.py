"""What fires next, as pure functions: `replan` after the intent, its zone or the zone database changed, and `catch_up`
after a downtime. They are used for rows of the database and for dry runs. `now` is always an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from duebox.when.policy import CatchUpMode, Fold, Gap, Late, choose
from duebox.when.resolver import SECOND, Occurrence, resolve
from duebox.when.rules import Every
from duebox.when.series import between, upcoming
from duebox.when.times import instant
from duebox.when.timetable import Timetable

# More than this many missed occurrences are not counted exactly: 1,000 take about 6 ms.
MISSED_COUNTED = 1_000
_MICROSECOND = timedelta.resolution
GRACE = timedelta(hours=26)
"""How late an occurrence may be after a change of zone to fire at once. No two zones are further apart (UTC-12 and
UTC+14), so a change of zone never loses a pending occurrence unless a shorter grace is chosen."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a schedule does next. `lost` is the pending occurrence that will not fire any more, if there is one."""

    next: Occurrence | None
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The policy for occurrences that became due while no worker ran.

    With the mode `latest` only the newest of them fires. With `all` the newest `cap` of them fire, oldest first. With
    `none` the newest fires only if it is late by no more than `grace`. With `latest` and `all`, occurrences that are
    late by more than `window` do not fire. Those that do not fire are missed, and the schedule log says so.
    """

    mode: CatchUpMode | str = CatchUpMode.LATEST
    window: timedelta | None = None
    cap: int = 100
    grace: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", choose(CatchUpMode, self.mode))


@dataclass(frozen=True, slots=True)
class Missed:
    """Occurrences that will not fire any more: how many, the first and the last. With `more` they were not all
    counted."""

    count: int
    first: Occurrence
    last: Occurrence
    more: bool = False


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Late occurrences: those to fire, and those missed, if any."""

    fire: tuple[Occurrence, ...]
    missed: Missed | None


def replan(
    table: Timetable,
    *,
    now: datetime,
    pending: str | None = None,
    fired: str | None = None,
    late: Late | str = Late.SKIP,
    grace: timedelta = GRACE,
    seed: str = "",
) -> Planned:
    """The next occurrence after the intent, its zone or the zone database changed. Calling it again changes nothing.

    `fired` is the key of the last occurrence that fired: it and all before it do not fire again, in any zone.
    `pending` is the key that was planned. If its new instant is already past, `late` decides: `fire_now` makes it
    due at once when it is late by no more than `grace`. Past occurrences that were never pending never fire.
    """
    now = instant(now, "now")
    is_fired = _is_fired(table, fired)
    if pending and choose(Late, late) is Late.FIRE_NOW:
        for one in between(table, now - grace, now + _MICROSECOND, seed=seed):
            if one.key == pending and not is_fired(one):
                return Planned(replace(one, instant=now))
    found = next((one for one in upcoming(table, now, seed=seed) if not is_fired(one)), None)
    is_lost = pending and pending != fired and not _is_ahead(pending, table, found, seed)
    return Planned(found, pending if is_lost else None)


def is_spent(key: str, fired: str | None) -> bool:
    """Whether an occurrence is the last one fired or before it. Keys of different kinds of rule cannot be compared."""
    if fired is None or _shape(key) != _shape(fired):
        return False
    # The second instant of a repeated time fires after first instants with later keys.
    if key.endswith(SECOND) and not fired.endswith(SECOND):
        return key[:10] < fired[:10]
    return _sortable(key) <= _sortable(fired)


def _is_fired(table: Timetable, fired: str | None) -> Callable[[Occurrence], bool]:
    """Whether an occurrence comes at or before the last one fired, in the order in which they fire."""
    if fired is None or table.rule.single:
        # A single occurrence that is moved may come before the one that fired, in another zone or by another clock.
        return lambda one: one.key == fired
    last = _instant_of(fired, table)

    def is_fired(one: Occurrence) -> bool:
        if not is_spent(one.key, fired) or last is None or one.key == fired:
            return is_spent(one.key, fired)
        # 02:30 in a gap is moved to 03:30 and comes after 03:00, though its key comes before.
        return one.instant - one.spread <= last

    return is_fired


def _instant_of(key: str, table: Timetable) -> datetime | None:
    """The instant of an occurrence whose key is its local time, in the current zone."""
    try:
        local = datetime.fromisoformat(key.removesuffix(SECOND))
    except ValueError:
        return None
    if local.tzinfo is not None or "T" not in key:
        return None
    gap = Gap.SHIFT_FORWARD if table.gap in (Gap.SKIP, Gap.REJECT) else table.gap
    fold = Fold.SECOND if key.endswith(SECOND) or table.fold is Fold.SECOND else Fold.FIRST
    return resolve(local, table.zone, gap=gap, fold=fold)[0].instant


def _is_ahead(pending: str, table: Timetable, found: Occurrence | None, seed: str) -> bool:
    """Whether an occurrence is the one found or comes after it: a zone further west may put another before it."""
    if found is None or found.key == pending:
        return found is not None
    if _shape(found.key) != _shape(pending) or _sortable(found.key) > _sortable(pending):
        return False
    later = (one.key for one in upcoming(table, found.instant, seed=seed)
             if _sortable(one.key) >= _sortable(pending))  # fmt: skip
    return next(later, None) == pending


def _sortable(key: str) -> str:
    """The key of an instant without its Z, with which `00:00Z` would sort after `00:00:30Z`."""
    return key.removesuffix("Z")


def _shape(key: str) -> tuple[bool, bool]:
    return "T" in key, key.endswith("Z")


def catch_up(table: Timetable, *, since: datetime, now: datetime, by: CatchUp, seed: str = "") -> CaughtUp:
    """Divide the occurrences from `since`, the oldest pending one, up to now into those to fire and the missed."""
    since, now = instant(since, "since"), instant(now, "now")
    reach = by.grace if by.mode is CatchUpMode.NONE else by.window
    floor = since if reach is None else max(since, now - reach)
    wanted = by.cap if by.mode is CatchUpMode.ALL else 1
    fire = _newest(table, floor, now + _MICROSECOND, wanted, seed)
    return CaughtUp(tuple(fire), _missed(table, since, fire[0].instant if fire else now + _MICROSECOND, seed))


def _missed(table: Timetable, since: datetime, end: datetime, seed: str) -> Missed | None:
    """The occurrences from an instant up to, not including, another; in bounded time and memory."""
    found = list(islice(between(table, since, end, seed=seed), MISSED_COUNTED + 1))
    if not found:
        return None
    if len(found) <= MISSED_COUNTED:
        return Missed(len(found), found[0], found[-1])
    [last] = _newest(table, since, end, 1, seed)
    if isinstance(table.rule, Every) and not (table.start or table.end or table.calendar):
        return Missed((last.instant - found[0].instant) // table.rule.interval + 1, found[0], last)
    return Missed(MISSED_COUNTED, found[0], last, more=True)


def _newest(table: Timetable, floor: datetime, end: datetime, count: int, seed: str) -> list[Occurrence]:
    """The last `count` before an instant, without iterating over all: a minutely rule has half a million a year."""
    span = timedelta(hours=1)
    while count > 0:
        start = max(floor, end - span)
        found = deque(between(table, start, end, seed=seed), maxlen=count)
        if len(found) == count or start == floor:
            return list(found)
        span *= 4
    return []
