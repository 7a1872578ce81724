"""Decisions about the next firing, as pure functions: the same ones for a row in a database and for a dry run.

Nothing here reads a clock or writes anything; `now` is always an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from duebox.when.occurrence import SECOND, Occurrence
from duebox.when.occurrences import between, upcoming
from duebox.when.policy import CatchUpMode, Fold, Gap, Late, choose
from duebox.when.resolver import resolve
from duebox.when.rules.every import Every
from duebox.when.times import instant
from duebox.when.timetable import Timetable

# More than this many missed occurrences are not counted exactly: 1,000 take about 6 ms.
MISSED_COUNTED = 1_000
_SHARP = timedelta.resolution
GRACE = timedelta(hours=26)
"""How late a change of zone may make an occurrence that then fires at once. No two zones are further apart (UTC-12 and
UTC+14), so a pending occurrence never gets lost by a change of zone unless a shorter grace is chosen."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a schedule does next. `lost` is the pending occurrence that will not fire any more, if there is one."""

    next: Occurrence | None
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What to do about occurrences that came due while no worker ran.

    `none` fires only what is late by no more than `grace`, `latest` the newest, `all` at most `cap`, the newest,
    in their order. Nothing older than `window` fires.
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
    """What comes next after the intent, its zone or the zone database changed. Asking twice changes nothing.

    `fired` is the key of the last occurrence that fired: it and all before it are spent, in whatever zone.
    `pending` is the key that was planned. If its new instant is already past, `late` decides: `fire_now` makes it
    due at once when it is late by no more than `grace`. Past occurrences that were never pending never fire.
    """
    now = instant(now, "now")
    behind = _behind(table, fired)
    if pending and choose(Late, late) is Late.FIRE_NOW:
        for one in between(table, now - grace, now + _SHARP, seed=seed):
            if one.key == pending and not behind(one):
                return Planned(replace(one, instant=now))
    found = next((one for one in upcoming(table, now, seed=seed) if not behind(one)), None)
    gone = pending and pending != fired and not _is_ahead(pending, table, found, seed)
    return Planned(found, pending if gone else None)


def is_spent(key: str, fired: str | None) -> bool:
    """Whether an occurrence lies at or before the last one fired. Keys of different kinds of rule say nothing."""
    if fired is None or _shape(key) != _shape(fired):
        return False
    # The second reading of a repeated time fires after first readings with later names.
    if key.endswith(SECOND) and not fired.endswith(SECOND):
        return key[:10] < fired[:10]
    return _sortable(key) <= _sortable(fired)


def _behind(table: Timetable, fired: str | None) -> Callable[[Occurrence], bool]:
    """Whether an occurrence comes at or before the last one fired, in the order in which they fire."""
    if fired is None or table.rule.single:
        # A single occurrence that is moved may come before the one that fired, in another zone or by another clock.
        return lambda one: one.key == fired
    last = _instant_of(fired, table)

    def behind(one: Occurrence) -> bool:
        if not is_spent(one.key, fired) or last is None or one.key == fired:
            return is_spent(one.key, fired)
        # 02:30 in a gap is moved to 03:30 and comes after 03:00, though its name comes before.
        return one.instant - one.spread <= last

    return behind


def _instant_of(key: str, table: Timetable) -> datetime | None:
    """The instant of an occurrence that is named by its local time, in the zone as it is now."""
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
    """Whether an occurrence is the one found, or comes after it: a move to the west may put another before it."""
    if found is None or found.key == pending:
        return found is not None
    if _shape(found.key) != _shape(pending) or _sortable(found.key) > _sortable(pending):
        return False
    later = (one.key for one in upcoming(table, found.instant, seed=seed)
             if _sortable(one.key) >= _sortable(pending))  # fmt: skip
    return next(later, None) == pending


def _sortable(key: str) -> str:
    """The key of an instant without its Z, by which `00:00Z` would sort behind `00:00:30Z`."""
    return key.removesuffix("Z")


def _shape(key: str) -> tuple[bool, bool]:
    return "T" in key, key.endswith("Z")


def catch_up(table: Timetable, *, since: datetime, now: datetime, by: CatchUp, seed: str = "") -> CaughtUp:
    """Sort the occurrences from `since`, the oldest one still pending, up to now into those to fire and the missed."""
    since, now = instant(since, "since"), instant(now, "now")
    reach = by.grace if by.mode is CatchUpMode.NONE else by.window
    floor = since if reach is None else max(since, now - reach)
    wanted = by.cap if by.mode is CatchUpMode.ALL else 1
    fire = _newest(table, floor, now + _SHARP, wanted, seed)
    return CaughtUp(tuple(fire), _missed(table, since, fire[0].instant if fire else now + _SHARP, seed))


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
    """The last so many before an instant, without a walk through all before them: a minutely rule has half a million a
    year."""
    span = timedelta(hours=1)
    while count > 0:
        start = max(floor, end - span)
        found = deque(between(table, start, end, seed=seed), maxlen=count)
        if len(found) == count or start == floor:
            return list(found)
        span *= 4
    return []
