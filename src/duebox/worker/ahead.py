"""Schedules prepared before their time, so that when it comes one statement is all that is left to do.

Read and decided while the worker has nothing better to do, some at a time. Firing checks the revision of each, so one
that was moved, cancelled or fired by another worker meanwhile does nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from duebox import clock
from duebox.firing import Decision, carry_out, prepare
from duebox.store.deliveries import Claim
from duebox.store.schedules import DueSchedule
from duebox.worker.clock import Clock

SECONDS = 1.0
# Read and decided at a time. Between two moments that are 5 ms apart there is time for the small slice: 25 rows take
# about 1 ms.
SLICE = 25
LARGE_SLICE = 500
# Prepared and not fired yet, at most; about 2 kB each.
LIMIT = 5_000
# What came due while the worker was busy for a moment is prepared too, and fires at once. What is later than this fires
# by the way that asks how late it is.
BEFORE_SECONDS = 0.25
# Fired by one statement at most, so that the first handlers start while the others are stored.
FIRE_AT_MOST = 500


class Fired(NamedTuple):
    """What became of those that were due."""

    claims: list[Claim]
    """The deliveries that this worker may run at once; none if it has no room for all."""
    to_claim: bool
    """Whether there are others, which any worker may claim."""
    look_again: bool
    """Whether a schedule may still be due, or be due again before long."""


class Ahead:
    """What this worker will fire within the next second."""

    def __init__(self, using: str, clock: Clock) -> None:
        self._using = using
        self._clock = clock
        self._ready: deque[Decision] = deque()
        self._good_until = 0.0
        self._last: DueSchedule | None = None
        self._other: datetime | None = None

    def look(self) -> None:
        """Prepare what comes next, and forget what was prepared before."""
        self._ready.clear()
        self._last = self._other = None
        self._prepare(SLICE, None)

    def look_further(self, *, hurry: bool) -> None:
        """Prepare what follows, a few of them if there is little time for it."""
        after = self._last or (self._ready[-1].row if self._ready else None)
        self._prepare(SLICE if hurry else LARGE_SLICE, after)

    def _prepare(self, limit: int, after: DueSchedule | None) -> None:
        speed = 1.0 / clock.real_seconds(1.0)
        self._good_until = time.monotonic() + SECONDS
        found = prepare(self._using, limit=limit, seconds=SECONDS * speed, before=BEFORE_SECONDS * speed, after=after)
        self._ready.extend(found.ready)
        self._last = found.last
        self._other = min((each for each in (self._other, found.other) if each), default=None)

    def seconds(self) -> float | None:
        """Until the first of them is due; None when there is none, or what was prepared has grown old."""
        if not self._ready or time.monotonic() > self._good_until:
            return None
        return self._until(self._ready[0].row.due_at)

    def seconds_to_other(self) -> float:
        """Until a schedule is due that is not prepared, as far as that is known."""
        ends = [each for each in (self._other, self._last and self._last.due_at) if each]
        return min([SECONDS, *(self._until(each) for each in ends)])

    def seconds_to_further_look(self) -> float | None:
        """None where that is of no use: nothing was found, or as much is prepared as may be."""
        if len(self._ready) >= LIMIT or not (self._ready or self._last):
            return None
        return 0.0 if self._last else SECONDS / 4

    def fire(self, lease: int, mine: Collection[str], room: int) -> Fired:
        """Fire those that are due now."""
        now = self._clock.reading()
        due: list[Decision] = []
        while self._ready and len(due) < FIRE_AT_MOST and self._ready[0].row.due_at.timestamp() <= now:
            due.append(self._ready.popleft())
        if not due:
            return Fired([], False, False)
        mine = mine if len(due) <= room else ()
        fired = carry_out(self._using, due, occurred=now, lease=lease, mine=mine, look=True)
        claims = [
            Claim((one.id, one.subscriber, None, 0, 0, one.due, *row), lease)
            for one, row in fired
            if one.lease == lease and one.id is not None
        ]
        left = any(one.lease is None and one.id is not None for one, _ in fired)
        events = {one.event for one, row in fired if row.causation is None}  # without public twins
        return Fired(claims, left, self._must_look_again(due, len(events)))

    def _must_look_again(self, due: list[Decision], events: int) -> bool:
        """One that somebody holds at this moment may still be due when he lets it go; and on a fast clock, one that
        repeats may be due again before long."""
        return events < len(due) or any(each.next and self._until(each.next.instant) < SECONDS for each in due)

    def _until(self, due_at: datetime) -> float:
        return clock.real_seconds(max(0.0, due_at.timestamp() - self._clock.reading()))
