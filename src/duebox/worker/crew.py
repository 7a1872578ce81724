"""The handler threads of one worker and the queue they take from."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from django.db import DatabaseError, InterfaceError

from duebox.outcome import Dead, Retried, Snooze
from duebox.signals import died, settled
from duebox.store.deliveries import Claim, Ended, promote, release
from duebox.subscribers import Subscriber
from duebox.worker.clock import Clock
from duebox.worker.cutting import cut
from duebox.worker.hand import Hand
from duebox.worker.lease import Lease
from duebox.worker.patience import patiently
from duebox.worker.settling import report
from duebox.worker.tally import Tally
from duebox.worker.timeouts import Timeouts
from duebox.worker.watchdog import Watchdog

logger = logging.getLogger("duebox.worker")

# Claim no more than what can be started in this time, so that slow handlers do not hoard.
HORIZON_SECONDS = 0.25
ABANDONED_FOR_EACH = 4
"""So many threads that hang there may be for each that works."""


class Crew:
    def __init__(
        self,
        using: str,
        lease: Lease,
        clock: Clock,
        subscribers: dict[str, Subscriber],
        *,
        threads: int,
        batch: int,
        rescue_limit: int,
        wake: Callable[..., None],
        thread_is_free: Callable[[], None],
        rewind: Callable[[], None],
        watchdog: Watchdog,
    ) -> None:
        self.using = using
        self.lease = lease
        self.clock = clock
        self.subscribers = subscribers
        self.batch = batch
        self.rescue_limit = rescue_limit
        self.wake = wake
        self.thread_is_free = thread_is_free
        self.rewind = rewind
        self.watchdog = watchdog
        self.tally = Tally()
        self.paces: dict[str, float] = {}
        self.apart_until: dict[str, float] = {}
        self.queue: SimpleQueue[Claim | None] = SimpleQueue()
        self.one_suspect_at_a_time = threading.Lock()
        self.through: Callable[[Iterable[Claim]], None] | None = None
        """Told which claims a handler thread is through with, where handlers have limits."""
        self._put = 0
        self._putting = threading.Lock()
        self._at_work: list[threading.Thread] = []
        self._hands = [Hand(self) for _ in range(threads)]
        self._threads = [self._thread_of(hand, number) for number, hand in enumerate(self._hands)]
        self._abandoned: list[threading.Thread] = []
        self._finished_before = 0
        """How many claims those threads had taken that were replaced."""
        self._timeouts = Timeouts(self)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._timeouts.start()

    def hands(self) -> list[Hand]:
        return list(self._hands)

    def replace(self, hand: Hand) -> None:
        """Another thread in the place of one whose handler does not end. A process with too many of those that hang
        gets no more of them until some have ended, and should be restarted."""
        if not self._replace(hand):
            logger.error("too many handlers hang, a handler thread is not replaced: abandoned=%d", len(self._abandoned))

    def replace_later(self) -> None:
        """Those that were not replaced because too many hang, as soon as some of them have ended."""
        for hand in self.hands():
            if hand.is_abandoned and self._replace(hand):
                self.thread_is_free()

    def _replace(self, hand: Hand) -> bool:
        index = self._hands.index(hand)
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if self._threads[index].is_alive():
            if len(self._abandoned) >= ABANDONED_FOR_EACH * len(self._threads):
                return False
            self._abandoned.append(self._threads[index])
        self._hands[index] = Hand(self)
        self._threads[index] = self._thread_of(self._hands[index], index)
        self._finished_before += hand.finished
        self._threads[index].start()
        return True

    def _thread_of(self, hand: Hand, number: int) -> threading.Thread:
        return threading.Thread(target=hand.work, name=f"duebox-hand-{number}", daemon=True)

    def room(self) -> int:
        """How many more claims can be started soon; 0 while there is plenty."""
        hands = sum(not hand.is_abandoned for hand in self._hands)
        # The slowest kind of handler decides; one that has not run yet counts as slow.
        pace = max(self.paces.values(), default=HORIZON_SECONDS)
        target = max(hands, min(3 * self.batch, int(hands * HORIZON_SECONDS / max(pace, 1e-9))))
        queued = self.queue.qsize() + sum(len(hand.running) for hand in self._hands)
        return min(self.batch, target - queued) if queued <= target - min(self.batch, target // 2) else 0

    def busy(self) -> bool:
        """Whether anything that was put is not finished yet."""
        return self._put != self._finished_before + sum(hand.finished for hand in self._hands)

    def taken(self) -> int:
        """How many claims were ever put."""
        return self._put

    def put(self, claims: Sequence[Claim]) -> None:
        with self._putting:  # also called for handlers with a limit, by another thread
            self._put += len(claims)
        for claim in claims:
            self.queue.put(claim)

    def finish(self, deadline: float, *, lives_on: bool) -> None:
        """Give back what was not started, let the rest end, and give back what does not end in time."""
        self.give_back(list(self._unstarted()), "not started")
        for _ in self._threads:
            self.queue.put(None)
        try:
            for thread in self._threads:
                thread.join(min(threading.TIMEOUT_MAX, max(0.0, deadline - time.monotonic())))
        finally:  # also where Celery's time limit ends the wait
            self._timeouts.stop()
            for hand, thread in zip(self._hands, self._threads, strict=True):
                if self._leave_behind(hand, lives_on=lives_on):
                    self._at_work.append(thread)

    def is_at_work(self) -> bool:
        """Whether something still runs that was not given back."""
        return any(thread.is_alive() for thread in self._at_work)

    def join(self) -> None:
        """However long it takes."""
        for thread in self._at_work:
            thread.join()

    def _leave_behind(self, hand: Hand, *, lives_on: bool) -> bool:
        """What an atomic handler does is undone and given back. Another one cannot be undone: it ends with this
        process, or, where the process lives on, in its own time, and must not run anywhere else till then. True if it
        is such a one."""
        running, unstarted = hand.leave_behind()
        self.give_back(unstarted, "not started")
        if running and self.subscribers[running[0].subscriber].atomic:
            cut(hand.connection)
        elif running and lives_on:
            return True
        self.give_back(running, "still running at the deadline")
        return False

    def settled(self, ended: list[Ended]) -> None:
        """Count, let the next of each stream go, and tell whoever listens."""
        self.tally.add(ended)
        self.promote_next([end.claim for end in ended])
        report(ended)
        settled.send_robust(sender=Crew, ended=ended)
        otherwise = [end for end in ended if end.outcome is not None]
        if any(isinstance(end.outcome, Retried | Snooze) for end in otherwise):
            self.wake(look=True)  # it is due again, at a time that the loop does not know of
        for end in otherwise:
            if isinstance(end.outcome, Dead):
                died.send_robust(sender=Crew, claim=end.claim, error=end.outcome.error)

    def lost(self, claims: Sequence[Claim], consequence: str) -> None:
        """They were not this worker's when they were settled. Perhaps it has settled them itself, and the answer was
        lost with the connection: then nobody else lets the next of their streams go, or knows when a retry is due."""
        for claim in claims:
            self.tally.lost += 1
            logger.warning("lease lost, nothing overwritten: %r; %s", claim, consequence)
        self.promote_next(claims)
        self.wake(look=True)

    def promote_next(self, claims: Iterable[Claim]) -> None:
        """The next delivery of each stream of these."""
        streams = {(claim.subscriber, claim.stream) for claim in claims if claim.stream is not None}
        if streams:
            patiently(lambda: promote(self.using, streams))
            self.rewind()
            self.wake()

    def _unstarted(self) -> Iterable[Claim]:
        while True:
            try:
                claim = self.queue.get_nowait()
            except Empty:
                return
            if claim is not None:
                yield claim

    def give_back(self, claims: list[Claim], why: str) -> None:
        """Burns no attempt."""
        for lease in {claim.lease for claim in claims}:
            ids = [claim.id for claim in claims if claim.lease == lease]
            logger.info("released: count=%s reason=%s", len(ids), why)
            try:
                patiently(partial(release, self.using, lease, ids))
            except (DatabaseError, InterfaceError) as error:
                logger.warning("not released, left to the rescue: count=%s error=%s", len(ids), str(error).strip())
