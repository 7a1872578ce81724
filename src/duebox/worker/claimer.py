"""Claim deliveries for the handlers: how many, from where in the index, and when again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from duebox import clock
from duebox.context import metrics
from duebox.store import leases
from duebox.store.deliveries import Stream, claim, mark_waiting, promote
from duebox.worker.handler_pool import HandlerPool
from duebox.worker.lease import Lease
from duebox.worker.listener import Listener
from duebox.worker.resources import Resources
from duebox.worker.tunables import TUNABLES


class Claimer:
    """Claims what is due, as far as the handler threads have room for it, and knows when to claim again."""

    def __init__(self, resources: Resources, pool: HandlerPool, mode: NotifyMode, names: list[str]) -> None:
        self.claim_at = 0.0
        """When to claim next, on the monotonic clock; 0 if there may be more to claim at once."""
        self.needs_look = False
        """Whether it is not known when the next delivery is due."""
        self._using = resources.using
        self._wakeup = resources.wakeup
        self._pool = pool
        self._mode = mode
        self._names = names
        self._cursor = ClaimCursor()
        self._busy_streams = BusyStreams(resources.using)
        self._next_due_at = 0.0
        self._full_claims = 0
        self._poll_often_until = 0.0

    def claim_at_once(self) -> None:
        self.claim_at = 0.0

    def may_have_more(self) -> bool:
        return self.claim_at <= 0.0

    def is_time(self) -> bool:
        return time.monotonic() >= self.claim_at

    def next_due_in(self, seconds: float | None) -> None:
        """When the next delivery is due, as the database said."""
        wait = self._mode.poll_seconds
        if seconds is not None:
            wait = min(wait, clock.real_seconds(seconds))
        self._next_due_at = time.monotonic() + wait
        self.claim_at = min(self.claim_at, self._next_due_at)
        self.needs_look = False

    def claim(self, lease: int) -> bool:
        """Claim once. True if nothing was due."""
        # Set before it is asked how much room there is: a thread that gets free after that wakes the loop.
        self._wakeup.wants_room = True
        room = self._pool.room()
        poll_seconds = self._mode.poll_seconds
        self.claim_at = time.monotonic() + poll_seconds
        if not self._names:
            self._mode.store(asleep=True)  # for destinations and limited handlers
        if not lease:
            self.claim_at = time.monotonic() + min(poll_seconds, TUNABLES.poll_without_lease_seconds)
        if not self._names or not lease or room <= 0:
            return not self._names
        self._wakeup.wants_room = False
        return self._claim(lease, room)

    def _claim(self, lease: int, room: int) -> bool:
        if self._wakeup.take_rewind():
            self._cursor.rewind()
        start = self._cursor.value
        begun = time.perf_counter()
        claims, waiting = claim(self._using, lease, self._names, room, due_from=start, past=self._busy_streams.streams)
        metrics.CLAIM_DURATION.observe([time.perf_counter() - begun])
        self._pool.inbox.put(claims)
        full = len(claims) + waiting.total() >= room
        self._cursor.move(claims[-1].due if full and claims else None)
        if self._busy_streams.see(waiting, {subscriber: room for subscriber, _ in waiting}):
            self._cursor.rewind()
        if full or self._busy_streams:
            self._full_claims += 1
            self._mode.store(asleep=self._full_claims < TUNABLES.full_claims_until_busy)
            self.claim_at = 0.0
        elif start and not claims:
            self.claim_at = 0.0  # there may be something before the cursor
        else:
            self._rest()
            return not (claims or waiting)
        return False

    def _rest(self) -> None:
        """Nothing more is due. When to claim again?"""
        self._full_claims = 0
        now = time.monotonic()
        if self._mode.store(asleep=True):
            # Transactions that looked before this saw a busy worker and send no NOTIFY: look for their events.
            self._poll_often_until = now + TUNABLES.poll_after_busy_seconds
            self.claim_at = 0.0
            return
        if now >= self._next_due_at:
            self.needs_look = True
        else:
            self.claim_at = self._next_due_at
        if now < self._poll_often_until:
            self.claim_at = min(self.claim_at, now + TUNABLES.poll_after_busy_interval_seconds)


class NotifyMode:
    """Whether emitters send a NOTIFY for this worker. The loop stores it with the lease; the other threads ask how long
    they may sleep."""

    def __init__(self, lease: Lease, listener: Listener | None, poll_seconds: float) -> None:
        self.poll_seconds = poll_seconds
        self._lease = lease
        self._listener = listener
        self._stored = ("poll", False, 0)
        self._listening_since = float("inf")

    def store(self, *, asleep: bool) -> bool:
        """A worker that is awake needs no NOTIFY. True when notifications were asked for that were not before, also
        because the lease is new."""
        mode = self._listener.mode if self._listener else "poll"
        listening = asleep and mode == "listen"
        lease = self._lease.id
        if (mode, listening, lease) == self._stored:
            return False
        _, was_listening, lease_before = self._stored
        begins = listening and (not was_listening or lease_before != lease)
        leases.set_mode(self._lease.using, lease, mode=mode, listening=listening)
        self._stored = (mode, listening, lease)
        if not listening:
            self._listening_since = float("inf")
        elif begins:
            self._listening_since = time.monotonic()
        return begins

    def longest_sleep(self) -> float:
        """For a thread that notifications wake. Transactions that began before they were asked for send none."""
        if time.monotonic() - self._listening_since > TUNABLES.notify_delay_seconds:
            return self.poll_seconds
        return min(self.poll_seconds, TUNABLES.poll_without_notify_seconds)


class ClaimCursor:
    """Where in the index of due deliveries the next claim starts.

    While another session holds an old snapshot, dead index entries pile up at the start of the index, and every claim
    that starts there reads them all (9,000 instead of 43,000 events/s). Late commits land before the cursor, so it goes
    back to the start now and then.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self._since = 0.0

    def rewind(self) -> None:
        self.value = 0.0

    def move(self, last_due: float | None) -> None:
        """To the last delivery of a full claim; back to the start after one that was not full."""
        now = time.monotonic()
        if last_due is None or now - self._since > TUNABLES.claim_cursor_seconds:
            self.value, self._since = 0.0, now
        else:
            self.value = last_due


class BusyStreams:
    """Ordered streams with so many due deliveries that claims would find hardly anything else.

    Only the first delivery of a stream may run. A claim gives the status `waiting` to the others that it finds, and the
    next claim finds the next of them: behind 100,000 events of two streams all other deliveries waited for 3.5 s. So
    claims leave out such a stream, and `see` makes the rest of its deliveries wait, some after each claim.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._after: dict[Stream, int] = {}
        self._until: dict[Stream, float] = {}

    def __bool__(self) -> bool:
        return bool(self._after)

    @property
    def streams(self) -> list[str]:
        """The streams that claims pass over. They are compared by name alone, to keep claims cheap; other subscribers
        with a stream of the same name wait for a moment, too."""
        return [stream for _, stream in self._after]

    def see(self, waiting: Counter[Stream], room: Mapping[str, int]) -> bool:
        """Add the streams of which a claim made many deliveries wait, given how many per stream; `room` says how many
        it could take for a subscriber. True when claims include a stream again that they left out."""
        if waiting:
            promote(self._using, waiting)
        for stream, count in waiting.items():
            if count >= room[stream[0]] * TUNABLES.busy_stream_share:
                self._after.setdefault(stream, 0)
                self._until.setdefault(stream, time.monotonic() + TUNABLES.busy_stream_seconds)
        return bool(self._after) and self._make_more_wait()

    def _make_more_wait(self) -> bool:
        found = mark_waiting(self._using, self._after, TUNABLES.busy_stream_chunk)
        promote(self._using, self._after)
        self._after.update({stream: aside.last for stream, aside in found.items()})
        # Where more arrives than can be updated, the first delivery must run all the same.
        now = time.monotonic()
        busy = {
            stream
            for stream, aside in found.items()
            if aside.many == TUNABLES.busy_stream_chunk and now < self._until[stream]
        }
        open_again = set(self._after) - busy
        for stream in open_again:
            del self._after[stream], self._until[stream]
        return bool(open_again)
