"""Fire schedules: those that are due, and those that were prepared before they are due."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from duebox import clock
from duebox.schedules.fire import BATCH, Decision, carry_out, fire_due, prepare
from duebox.schedules.intent import is_plain_single
from duebox.store.deliveries import Claim
from duebox.store.schedules import DueSchedule
from duebox.worker.handler_pool import HandlerPool
from duebox.worker.health import Pulse
from duebox.worker.lease import Clock
from duebox.worker.resources import Resources
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limit


class Fired(NamedTuple):
    number: int
    """How many schedules; prepared ones that fire together count as one."""
    to_claim: bool
    """Whether there are deliveries to claim."""


class Scheduler:
    """Fires the schedules that are due, prepares those that are near, and knows when to do either."""

    def __init__(
        self, resources: Resources, pool: HandlerPool, pulse: Pulse, names: list[str], poll_seconds: float
    ) -> None:
        self.prepared = PreparedSchedules(resources.using, resources.clock)
        self.fired_at = 0.0
        """When all that was due had been fired; 0 if there was more than could be fired in a row."""
        self._using = resources.using
        self._lease = resources.lease
        self._pool = pool
        self._pulse = pulse
        self._names = names
        self._longest_sleep = min(poll_seconds, TUNABLES.longest_sleep_seconds)
        # When to do what, on the monotonic clock.
        self._fire_at = self._look_at = 0.0
        self._prepare_at = float("inf")

    def fire(self, lease: int) -> Fired:
        """Fire what it is time for, before deliveries are claimed: many deliveries must not make schedules late."""
        count, to_claim = 0, False
        if lease and self.prepared.seconds() == 0.0:
            count, to_claim = 1, self._fire_prepared(lease)
        if time.monotonic() >= self._fire_at and not self._prepared_come_first(self._fire_at):
            due = self._fire_due()
            count, to_claim = count + due, to_claim or due > 0
        return Fired(count, to_claim)

    def _fire_prepared(self, lease: int) -> bool:
        """The shortest way from a schedule to its handler: one statement, and no claim."""
        fired = self.prepared.fire(lease, self._names, self._pool.room())
        self._pool.inbox.put(fired.claims)
        if fired.fire_again:
            self._fire_at = min(self._fire_at, time.monotonic())
        return fired.to_claim

    def _prepared_come_first(self, since: float) -> bool:
        """Whether prepared schedules are due that fire sooner if nothing is read from the table before. What is read
        instead, since this time, is not put off for long."""
        if self.prepared.other_is_due() or self.seconds_to_prepared() != 0.0:
            return False
        return time.monotonic() - since < TUNABLES.prepared_first_seconds

    def _fire_due(self) -> int:
        count = fired = fire_due(self._using).due
        while fired == BATCH and count < TUNABLES.fire_in_a_row:
            self._pulse.turn()  # each batch may take as long as a turn
            limit()
            fired = fire_due(self._using).due
            count += fired
        now = time.monotonic()
        self.fired_at = now if fired < BATCH else 0.0
        self._fire_at = now + TUNABLES.fire_while_busy_seconds if fired < BATCH else now
        self.look_soon()
        return count

    def look_soon(self) -> None:
        """Ask the database when the next schedule is due, as soon as there is time for it."""
        self._look_at = min(self._look_at, time.monotonic())

    def look_at_once(self) -> None:
        self._look_at = 0.0

    def is_time_to_look(self) -> bool:
        if time.monotonic() < self._look_at or self._prepared_come_first(self._look_at):
            return False
        return self._has_time(self._look_at)

    def is_time_to_prepare(self) -> bool:
        return time.monotonic() >= self._prepare_at and self._has_time(self._prepare_at)

    def _has_time(self, since: float) -> bool:
        """Whether no prepared schedule is due within the next milliseconds. It is not put off for long."""
        seconds = self.seconds_to_prepared()
        if seconds is None or seconds >= TUNABLES.put_off_seconds:
            return True
        return time.monotonic() - since > TUNABLES.put_off_at_most_seconds

    def next_due_in(self, seconds: float | None) -> None:
        """When the next schedule is due, as the database said. If it is near, prepare it and those that follow."""
        now, longest = time.monotonic(), self._longest_sleep
        soon = longest if seconds is None else clock.real_seconds(seconds)
        self._prepare_at = float("inf")
        self._look_at = now + longest
        if soon <= 0.0 and -soon > now - self.fired_at:
            # It was due already when the others were fired, so another transaction has locked it.
            self._fire_at = self.fired_at + TUNABLES.fire_locked_again_seconds
        elif soon <= -TUNABLES.prepare_late_seconds:
            self._fire_at = min(self._fire_at, now)
        elif soon < TUNABLES.prepare_seconds:
            self.prepared.look()
            self._after_preparing()
        else:
            self._fire_at = now + min(soon, longest)
            if soon < longest:
                self._look_at = now + max(0.0, soon - TUNABLES.wake_to_prepare_seconds)

    def prepare(self) -> None:
        """Prepare the schedules that follow those that are prepared."""
        seconds = self.prepared.seconds()
        self.prepared.look_further(hurry=seconds is not None and seconds < TUNABLES.hurry_seconds)
        self._after_preparing()

    def _after_preparing(self) -> None:
        now = time.monotonic()
        self._fire_at = now + self.prepared.seconds_to_other()
        further = self.prepared.seconds_to_further_look()
        self._prepare_at = float("inf") if further is None else now + further

    def seconds_to_prepared(self) -> float | None:
        """Until the first prepared schedule is due. Without a lease none fires."""
        return self.prepared.seconds() if self._lease.id else None

    def next_at(self) -> float:
        """When there is something to do, on the monotonic clock, apart from prepared schedules."""
        return min(self._fire_at, self._look_at, self._prepare_at)


class FiredPrepared(NamedTuple):
    """What came of prepared schedules that were due."""

    claims: list[Claim]
    """The deliveries that this worker may run at once; none if it has no room for all."""
    to_claim: bool
    """Whether there are others, which any worker may claim."""
    fire_again: bool
    """Whether a schedule may still be due, or be due again before long."""


class PreparedSchedules:
    """The schedules that this worker will fire within the next second, read and decided in advance, some at a time.

    Firing them takes one statement, which checks the revision of each: one that was moved, cancelled or fired by
    another worker meanwhile does nothing.
    """

    def __init__(self, using: str, clock: Clock) -> None:
        self._using = using
        self._clock = clock
        self._ready: deque[Decision] = deque()
        self._good_until = 0.0
        self._last: DueSchedule | None = None
        self._other: datetime | None = None

    def look(self) -> None:
        """Prepare those that are due next, and forget those that were prepared before."""
        self._ready.clear()
        self._last = self._other = None
        self._prepare(TUNABLES.prepare_slice, None)

    def look_further(self, *, hurry: bool) -> None:
        """Prepare those that follow, a few of them if there is little time for it."""
        after = self._last or (self._ready[-1].row if self._ready else None)
        self._prepare(TUNABLES.prepare_slice if hurry else TUNABLES.prepare_large_slice, after)

    def _prepare(self, limit: int, after: DueSchedule | None) -> None:
        speed = 1.0 / clock.real_seconds(1.0)
        self._good_until = time.monotonic() + TUNABLES.prepare_seconds
        found = prepare(
            self._using,
            limit=limit,
            seconds=TUNABLES.prepare_seconds * speed,
            before=TUNABLES.prepare_late_seconds * speed,
            after=after,
        )
        self._ready.extend(found.ready)
        self._last = found.last
        self._other = min((each for each in (self._other, found.other) if each), default=None)

    def seconds(self) -> float | None:
        """Until the first of them is due; None when there is none, or it was prepared too long ago."""
        if not self._ready:
            return None
        first = self._ready[0].row
        late = self._clock.reading() - first.due_at.timestamp()
        if late < 0.0:
            return self._until(first.due_at) if time.monotonic() < self._good_until else None
        return 0.0 if clock.real_seconds(late) < _fires_prepared_until(first) else None

    def other_is_due(self) -> bool:
        """Whether a schedule is due that could not be prepared, as far as that is known."""
        return self._other is not None and self._until(self._other) == 0.0

    def seconds_to_other(self) -> float:
        """Until a schedule is due that is not prepared, as far as that is known."""
        ends = [each for each in (self._other, self._last and self._last.due_at) if each]
        return min([TUNABLES.prepare_seconds, *(self._until(each) for each in ends)])

    def seconds_to_further_look(self) -> float | None:
        """None where that is of no use: none was found, or as many are prepared as may be."""
        if len(self._ready) >= TUNABLES.prepared_at_most or not (self._ready or self._last):
            return None
        return 0.0 if self._last else TUNABLES.prepare_seconds / 4

    def fire(self, lease: int, mine: Collection[str], room: int) -> FiredPrepared:
        """Fire those that are due now."""
        now = self._clock.reading()
        due: list[Decision] = []
        while (
            self._ready and len(due) < TUNABLES.fire_prepared_at_most and self._ready[0].row.due_at.timestamp() <= now
        ):
            due.append(self._ready.popleft())
        if not due:
            return FiredPrepared([], False, False)
        mine = mine if len(due) <= room else ()
        fired, _ = carry_out(self._using, due, occurred=now, lease=lease, mine=mine)
        claims = [
            Claim((one.id, one.subscriber, None, 0, 0, one.due, *row), lease)
            for one, row in fired
            if one.lease == lease and one.id is not None
        ]
        left = any(one.lease is None and one.id is not None for one, _ in fired)
        events = {one.event for one, row in fired if row.causation is None}  # without public twins
        return FiredPrepared(claims, left, self._must_fire_again(due, len(events)))

    def _must_fire_again(self, due: list[Decision], events: int) -> bool:
        """One that another transaction has locked may still be due afterwards; and on a fast clock, one that repeats
        may be due again before long."""
        return events < len(due) or any(
            each.next and self._until(each.next.instant) < TUNABLES.prepare_seconds for each in due
        )

    def _until(self, due_at: datetime) -> float:
        return clock.real_seconds(max(0.0, due_at.timestamp() - self._clock.reading()))


def _fires_prepared_until(row: DueSchedule) -> float:
    """How many seconds late a schedule may fire as it was decided before it was due."""
    return TUNABLES.prepared_late_plain_seconds if is_plain_single(row.intent) else TUNABLES.prepared_late_seconds
