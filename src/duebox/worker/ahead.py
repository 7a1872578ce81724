"""Schedules prepared before their time, so that when it comes one statement is all that is left to do.

Read, decided and rendered while the worker has nothing better to do. Firing checks the revision of each, so one that
was moved, cancelled or fired by another worker meanwhile does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime

from duebox import clock
from duebox.firing import Decision, carry_out, prepare
from duebox.store.deliveries import Claim
from duebox.worker.clock import Clock

SECONDS = 1.0
LIMIT = 100


class Ahead:
    """What this worker will fire within the next second."""

    def __init__(self, using: str, clock: Clock) -> None:
        self._using = using
        self._clock = clock
        self._ready: list[Decision] = []
        self._good_until = 0.0

    def look(self) -> float:
        """Prepare what comes next and forget what was prepared before; gives the seconds until a schedule is due that
        could not be prepared, as far as that is known."""
        self._good_until = time.monotonic() + SECONDS
        ready, other = prepare(self._using, limit=LIMIT, seconds=SECONDS / clock.real_seconds(1.0))
        self._ready = ready[::-1]
        return SECONDS if other is None else min(SECONDS, self._until(other))

    def seconds(self) -> float | None:
        """Until the first of them is due; None when there is none, or what was prepared has grown old."""
        if not self._ready or time.monotonic() > self._good_until:
            return None
        return self._until(self._ready[-1].row.due_at)

    def fire(self, lease: int, mine: Collection[str], room: int) -> tuple[list[Claim], bool]:
        """Fire those that are due now; gives the deliveries that this worker may run at once, none if it has no room
        for all, and whether it must look again soon."""
        now = self._clock.reading()
        due: list[Decision] = []
        while self._ready and self._ready[-1].row.due_at.timestamp() <= now:
            due.append(self._ready.pop())
        if not due:
            return [], False
        fired = carry_out(self._using, due, lease=lease, mine=mine if len(due) <= room else ())
        claims = [
            Claim((one.id, one.subscriber, None, 0, 0, one.due, *row), lease)
            for one, row in fired
            if one.lease == lease and one.id is not None
        ]
        return claims, self._must_look_again(due, len({one.event for one, _ in fired}))

    def _must_look_again(self, due: list[Decision], events: int) -> bool:
        """One that somebody holds at this moment may still be due when he lets it go; and on a fast clock, one that
        repeats may be due again before long."""
        return events < len(due) or any(each.next and self._until(each.next.instant) < SECONDS for each in due)

    def _until(self, due_at: datetime) -> float:
        return clock.real_seconds(max(0.0, due_at.timestamp() - self._clock.reading()))
