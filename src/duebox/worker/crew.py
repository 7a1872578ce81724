"""The handler threads of one worker and the queue they take from."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue

from django.db import DatabaseError, InterfaceError

from duebox.outcome import Dead
from duebox.signals import died, settled
from duebox.store.deliveries import Claim, Ended, promote, release
from duebox.subscribers import Subscriber
from duebox.worker.clock import Clock
from duebox.worker.cutting import cut
from duebox.worker.hand import Hand
from duebox.worker.lease import Lease
from duebox.worker.patience import patiently
from duebox.worker.tally import Tally

logger = logging.getLogger("duebox.worker")

# Claim no more than what can be started in this time, so that slow handlers do not hoard.
HORIZON_SECONDS = 0.25


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
        wake: Callable[[], None],
        rewind: Callable[[], None],
    ) -> None:
        self.using = using
        self.lease = lease
        self.clock = clock
        self.subscribers = subscribers
        self.batch = batch
        self.rescue_limit = rescue_limit
        self.wake = wake
        self.rewind = rewind
        self.tally = Tally()
        self.paces: dict[str, float] = {}
        self.apart_until: dict[str, float] = {}
        self.queue: SimpleQueue[Claim | None] = SimpleQueue()
        self.one_suspect_at_a_time = threading.Lock()
        self._put = 0
        self._at_work: list[threading.Thread] = []
        self._hands = [Hand(self) for _ in range(threads)]
        self._threads = [
            threading.Thread(target=hand.work, name=f"duebox-hand-{number}", daemon=True)
            for number, hand in enumerate(self._hands)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def room(self) -> int:
        """How many more claims can be started soon; 0 while there is plenty."""
        hands = len(self._hands)
        # The slowest kind of handler decides; one that has not run yet counts as slow.
        pace = max(self.paces.values(), default=HORIZON_SECONDS)
        target = max(hands, min(3 * self.batch, int(hands * HORIZON_SECONDS / max(pace, 1e-9))))
        queued = self.queue.qsize() + sum(len(hand.running) for hand in self._hands)
        return min(self.batch, target - queued) if queued <= target - min(self.batch, target // 2) else 0

    def busy(self) -> bool:
        """Whether anything that was put is not finished yet."""
        return self._put != sum(hand.finished for hand in self._hands)

    def taken(self) -> int:
        """How many claims were ever put."""
        return self._put

    def put(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._put += 1
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
        streams = {(end.claim.subscriber, end.claim.stream) for end in ended if end.claim.stream is not None}
        if streams:
            patiently(lambda: promote(self.using, streams))
            self.rewind()
            self.wake()
        settled.send_robust(sender=Crew, ended=ended)
        for end in ended:
            if isinstance(end.outcome, Dead):
                logger.error("dead letter: %r error=%r", end.claim, end.outcome.error)
                died.send_robust(sender=Crew, claim=end.claim, error=end.outcome.error)

    def lost(self, claim: Claim, consequence: str) -> None:
        self.tally.lost += 1
        logger.warning("lease lost, nothing overwritten: %r; %s", claim, consequence)

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
