"""From a rule's local times to occurrences in the order in which they fire.

Close to a gap or a fold, local order and instant order part ways: 02:30 moved to 03:30 comes after 03:00, and
the second 01:00 after the first 01:45. There, occurrences wait until nothing earlier can follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from heapq import heappop, heappush
from zoneinfo import ZoneInfo

from duebox.when.business import Calendar, open_day
from duebox.when.occurrence import SECOND, Moved, Nominal, Occurrence, elapsed_key
from duebox.when.policy import Closed, Fold, Gap
from duebox.when.resolver import How, nearby_offsets, resolve


@dataclass(frozen=True, slots=True)
class Reading:
    """How local times are read: the zone's rules, the policies, and the days that are closed."""

    rules: ZoneInfo
    gap: Gap
    fold: Fold
    elapsed: bool = False
    rolls: Calendar | None = None
    closed: Closed = Closed.SKIP

    def occurrences(self, nominal: Nominal) -> list[Occurrence]:
        """What one local time comes to: nothing, one occurrence, or both readings of a repeated time."""
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
        earliest, calm = _earliest(nominal, reading)
        yield from _release(waiting, earliest)
        found = reading.occurrences(nominal)
        if calm and not waiting:
            yield from found
            continue
        for one in found:
            unsure = one.how is not How.EXACT or one.moved is not None
            heappush(waiting, (one.instant, unsure, one.key, one))
    yield from _release(waiting, None)


def _earliest(nominal: Nominal, reading: Reading) -> tuple[datetime, bool]:
    """A bound below every occurrence of this and all later local times, and whether order needs no care here."""
    local = nominal.local
    if reading.rolls is not None:
        local = datetime.combine(min(local, reading.land(nominal)[0]).date(), time())
    low, high = nearby_offsets(reading.rules, local)
    return (local - high).replace(tzinfo=UTC), low == high and reading.rolls is None


def _release(waiting: list[tuple[datetime, bool, str, Occurrence]], earliest: datetime | None) -> Iterator[Occurrence]:
    while waiting and (earliest is None or waiting[0][0] < earliest):
        first = heappop(waiting)
        # Of several that share an instant the unmoved one comes first and takes in the others.
        while waiting and waiting[0][0] == first[0]:
            heappop(waiting)
        yield first[3]
