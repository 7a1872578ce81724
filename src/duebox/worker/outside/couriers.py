"""The threads that carry events out. They take from the desks in turn, and talk to no database."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError

from duebox.store import leases
from duebox.store.deliveries import Claim, Ended
from duebox.worker.crew import Crew
from duebox.worker.dispatch import could_not_run, is_lost_connection
from duebox.worker.outside.carrying import carry, failure_of, seconds_asked
from duebox.worker.outside.desk import SLOW, UNKNOWN, Bundle, Desk
from duebox.worker.sessions import own_connection
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")

IDLE_SECONDS = 30.0


class Done(NamedTuple):
    """What came of a bundle. Claims that no end tells of did not get a fair chance."""

    bundle: Bundle
    ended: list[Ended]


class Couriers:
    """At most so many at work. A quarter of them is kept for destinations that are known to answer quickly, and more
    than a third for those of which nobody knows yet: a crowd that hangs must not be in their way."""

    def __init__(self, crew: Crew, most: int, wake: Callable[[], None]) -> None:
        self.done: SimpleQueue[Done] = SimpleQueue()
        self._crew = crew
        self._most = most
        self._wake = wake
        self.lock = threading.Condition()
        """Held by whoever looks at the desks or changes them."""
        self._row: dict[str, Desk] = {}
        """Desks where something waits, in the order of their turns."""
        self._running: set[Bundle] = set()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._called = 0
        """Idle ones that were called and have not come yet."""
        self._stopping = False

    def put(self, desk: Desk, claims: list[Claim]) -> bool:
        """False where it is too late: everybody is about to leave."""
        with self.lock:
            if self._stopping:
                return False
            desk.waiting.extend(claims)
            self._row.setdefault(desk.name, desk)
            bundles = -(-len(claims) // desk.destination.batch_size)
            wanted = min(bundles, desk.terms.concurrency)
            free = max(0, self._idle - self._called)
            for _ in range(min(wanted - free, self._most - len(self._threads))):
                self._hire()
            self._called += min(wanted, free)
            self.lock.notify(min(wanted, free))
        return True

    def clear(self, desk: Desk) -> list[Claim]:
        """What waits at a desk is not carried after all."""
        with self.lock:
            self._row.pop(desk.name, None)
            return desk.clear()

    def untrip(self, desk: Desk, judged: int) -> None:
        """So many calls were judged; what waits at it may be started, unless another has ended meanwhile."""
        with self.lock:
            desk.unjudged -= judged
            if desk.tripped and not desk.unjudged:
                desk.tripped = False
                self.lock.notify_all()

    def running(self) -> list[Claim]:
        with self.lock:
            return [claim for bundle in self._running for claim in bundle.claims]

    def busy(self) -> bool:
        with self.lock:
            return bool(self._row or self._running) or not self.done.empty()

    def stop(self) -> list[Claim]:
        """Nothing more is started; gives back what waits."""
        with self.lock:
            self._stopping = True
            self.lock.notify_all()
            waiting = [claim for desk in self._row.values() for claim in desk.clear()]
            self._row.clear()
        return waiting

    def join(self, seconds_left: Callable[[], float]) -> None:
        for thread in list(self._threads):
            thread.join(min(threading.TIMEOUT_MAX, max(0.0, seconds_left())))

    def _hire(self) -> None:
        thread = threading.Thread(target=self._work, name=f"duebox-courier-{len(self._threads)}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        crew = self._crew
        with own_connection(crew.using, crew.watchdog, threading.current_thread().name):
            try:
                while (bundle := self._next()) is not None:
                    self._attend_to(bundle)
            finally:
                close_connections()

    def _attend_to(self, bundle: Bundle) -> None:
        ended: list[Ended] = []
        try:
            tidy_connections()  # of those whose destination uses the database
            if self._crew.lease.owns(bundle.claims[0].lease):  # else whoever rescues it carries it
                ended = self._carry(bundle)
        except BaseException as error:
            logger.exception("events could not be carried: destination=%s", bundle.desk.name)
            ended = [] if is_lost_connection(error) else self._failed(bundle, error)
        with self.lock:
            bundle.desk.end(bundle, ended, sum(failure_of(each.outcome) is not None for each in ended))
            bundle.desk.tripped = bundle.desk.tripped or seconds_asked(ended) > 0
            bundle.desk.unjudged += 1
            self.done.put(Done(bundle, ended))
            self._running.discard(bundle)
        self._wake()

    def _failed(self, bundle: Bundle, error: BaseException) -> list[Ended]:
        now, on_dead = self._crew.clock.now(), bundle.desk.terms.on_dead
        return [could_not_run(each, error, started=now, on_dead=on_dead) for each in bundle.claims]

    def _carry(self, bundle: Bundle) -> list[Ended]:
        crew, first = self._crew, bundle.claims[0]
        if first.rescues + 1 < crew.rescue_limit:
            return carry(bundle, crew.clock)
        # On its last chance, announced and alone: if it takes the process down, it is known which one did.
        with crew.one_suspect_at_a_time:
            if not crew.lease.owns(first.lease):
                return []  # lost while it waited for its turn
            with limited():
                leases.announce_suspect(crew.using, first.lease, first.id)
            ended = carry(bundle, crew.clock)
            try:
                with limited():
                    leases.announce_suspect(crew.using, first.lease, None)
            except (DatabaseError, InterfaceError) as error:  # what it has done counts all the same
                logger.warning("a suspect could not be cleared: %r %s", first, str(error).strip())
        return ended

    def _next(self) -> Bundle | None:
        """The next bundle; None when there is nothing to do any more."""
        called = True
        with self.lock:
            while not self._stopping:
                if (bundle := self._turn()) is not None:
                    return bundle
                if not called:
                    break  # and nothing came in the moment in which the wait ended
                self._idle += 1
                called = self.lock.wait(IDLE_SECONDS)
                self._idle -= 1
                self._called = max(0, self._called - 1) if self._idle else 0
            self._threads.discard(threading.current_thread())
            return None

    def _turn(self) -> Bundle | None:
        """From the first desk in the row that may start a call; it goes to the end."""
        taken = Counter(bundle.desk.kind for bundle in self._running)
        full = {
            SLOW: taken[SLOW] >= max(1, self._most * 3 // 8),
            UNKNOWN: taken[SLOW] + taken[UNKNOWN] >= max(1, self._most * 3 // 4),
        }
        for desk in self._row.values():
            if desk.may_start() and not full.get(desk.kind):
                bundle = desk.take(self._crew.rescue_limit)
                self._running.add(bundle)
                del self._row[desk.name]
                if desk.waiting:
                    self._row[desk.name] = desk
                return bundle
        return None
