"""One handler thread: take a claim, run it, settle in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from duebox.exceptions import LeaseLost
from duebox.outcome import Expired
from duebox.store import leases
from duebox.store.deliveries import Claim, Ended, release
from duebox.subscribers import Subscriber
from duebox.worker.dispatch import Running, could_not_run, is_lost_connection, perform, refuse_open_transaction
from duebox.worker.group import perform_together
from duebox.worker.patience import patiently
from duebox.worker.sessions import own_connection
from duebox.worker.settling import settle
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import limited

if TYPE_CHECKING:
    from duebox.worker.crew import Crew

logger = logging.getLogger("duebox.worker")

SETTLE_AT_MOST = 250
SETTLE_WITHIN_SECONDS = 0.025
GROUP_AT_MOST = 50
GROUP_WITHIN_SECONDS = 0.030
QUICK_SECONDS = 0.020
STUMBLE_SECONDS = 1.0
APART_SECONDS = 10.0
GONE = (
    "The handler deleted its own delivery or changed its lease, so that it could not be settled; "
    "leave the rows of duebox_delivery that are running alone."
)


class Hand:
    def __init__(self, crew: Crew) -> None:
        self.running: list[Claim] = []
        """What this thread is working on, or has not settled yet."""
        self.finished = 0
        """How many claims this thread has taken and is done with."""
        self.connection: BaseDatabaseWrapper | None = None
        self.thread_id = 0
        self.current = Running()
        self.is_abandoned = False
        """A handler did not end in time: nothing that this thread still does counts."""
        self._taken = 0
        self._crew = crew
        self._held: Claim | None = None
        self._ended: list[Ended] = []
        self._is_left = False
        self._has_turn = False
        """Whether it runs a delivery on its last chance, which is done by one thread at a time."""
        self._settling = threading.RLock()
        """Held while outcomes are written, and by whoever leaves this thread behind."""

    def leave_behind(self) -> tuple[list[Claim], list[Claim]]:
        """For whoever does not wait for this thread any longer: what still runs, and what was not begun and will not
        be. What has run is settled, so that it does not run again."""
        with self._settling:
            self._is_left = True
            held, self._held = self._held, None
            self._settle()
            return list(self.running), [held] if held is not None else []

    def abandon(self, claim: Claim) -> list[Claim]:
        """Like `leave_behind`, for a thread that hangs in this claim and is replaced: gives the others that it had
        taken, none of which was settled."""
        with self._settling:
            running, unstarted = self.leave_behind()
            self.running.clear()
            self.finished = self._taken
            self._end_turn()
        return [each for each in running + unstarted if each is not claim]

    def work(self) -> None:
        """Until the end-of-work mark comes. Nothing else ends it: a thread that died would be missed by nobody."""
        crew = self._crew
        with own_connection(crew.using, crew.watchdog, threading.current_thread().name, is_lost=self._is_lost):
            self.connection = connections[crew.using]
            self.thread_id = threading.get_ident()
            working = True
            while working and not self.is_abandoned:
                try:
                    claim = self._next()
                    working = claim is not None
                    if claim is not None:
                        self._attend_to(claim)
                except BaseException:
                    logger.exception("unexpected error in a handler thread; it goes on")
                    time.sleep(STUMBLE_SECONDS)
            close_connections()

    def _is_lost(self) -> bool:
        """Asked by the watchdog: whether another worker may run by now what runs here."""
        return any(self._crew.lease.is_over(claim.lease) for claim in list(self.running))

    def _attend_to(self, claim: Claim) -> None:
        self.running.append(claim)
        try:
            self._run(claim)
        except BaseException as error:  # one bad row never stops the loop
            logger.exception("delivery could not be run: %r", claim)
            waiting = {end.claim.id for end in self._ended}
            self._fail([each for each in self.running if each.id not in waiting], error)
        if self._crew.through is not None:
            self._crew.through(list(self.running))
        ended = self._ended
        if not ended or ended[-1].claim is not claim:
            self.running[:] = [end.claim for end in ended]
        elif len(ended) >= SETTLE_AT_MOST or self._crew.clock.now() - ended[0].started > SETTLE_WITHIN_SECONDS:
            self._settle()

    def _next(self) -> Claim | None:
        if self._held is not None:
            with self._settling:
                held, self._held = self._held, None
            if held is not None:
                return held
        try:
            claim = self._crew.queue.get_nowait()
        except Empty:
            self._settle()
            self.running.clear()
            self.finished = self._taken
            self._crew.thread_is_free()
            claim = self._crew.queue.get()
            tidy_connections()
        self._taken += 1
        return claim

    def _run(self, claim: Claim) -> None:
        if not self._is_ours(claim.lease):
            return  # whoever it was given back to, or rescues it, runs it
        subscriber = self._crew.subscribers[claim.subscriber]
        if self._is_last_chance(claim):
            self._run_suspect(claim, subscriber)
        elif self._may_share(claim, subscriber):
            self._run_group(claim, subscriber)
        else:
            if not self._is_quick(subscriber):
                self._settle()  # what has run does not wait for it
            self._run_alone(claim, subscriber)

    def _is_ours(self, lease: int) -> bool:
        return not self._is_left and self._crew.lease.owns(lease)

    def _run_alone(self, claim: Claim, subscriber: Subscriber) -> None:
        try:
            end, written = perform(claim, subscriber, self._crew.using, self._crew.clock, self.current)
        except LeaseLost as lost:
            if not self.is_abandoned and not self._fail([claim], LeaseLost(GONE)):
                self._crew.lost([claim], str(lost))
            return
        if self.is_abandoned:
            logger.warning("handler ended after its timeout, its result is ignored: %r", claim)
        elif written:
            self._note_paces([end])
            self._crew.settled([end])
        elif not (subscriber.atomic and self._is_left):  # else it was cut off and given back
            assert self.connection is not None, "this thread has a connection of its own"
            end = refuse_open_transaction(end, subscriber, self.connection)
            with self._settling:
                self._ended.append(end)

    def _run_suspect(self, claim: Claim, subscriber: Subscriber) -> None:
        """Announced and alone: if it takes the process down, it is known which one did."""
        self._settle()
        self._crew.one_suspect_at_a_time.acquire()
        self._has_turn = True
        try:
            if not self._is_ours(claim.lease):
                return  # lost while it waited for its turn
            patiently(partial(leases.announce_suspect, self._crew.using, claim.lease, claim.id))
            self._run_alone(claim, subscriber)
            self._settle()
            if not self.is_abandoned:  # else another one may be announced by now
                patiently(partial(leases.announce_suspect, self._crew.using, claim.lease, None))
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        """Of a delivery on its last chance; the thread itself ends it, or the one that replaces it does."""
        with self._settling:
            if self._has_turn:
                self._has_turn = False
                self._crew.one_suspect_at_a_time.release()

    def _run_group(self, claim: Claim, subscriber: Subscriber) -> None:
        self._settle()
        crew = self._crew
        try:
            pairs = self._quick_ones(claim, subscriber)
            ended, together = perform_together(pairs, crew.using, crew.clock, self._is_ours, self.current)
        except LeaseLost:
            ended, together = [], False
        if self.is_abandoned:
            logger.warning("handler ended after its timeout, its result is ignored: %r", claim)
            return
        settled = {end.claim.id for end in ended}
        lost = [each for each in self.running if each.id not in settled]
        self._give_back(lost)
        self._note_paces(ended)
        if not together:
            # Those that were in it stay apart for a while, so that a failing handler makes its neighbours run
            # twice now and then, and not all the time.
            until = time.monotonic() + APART_SECONDS
            crew.apart_until.update({crew.subscribers[each.subscriber].name: until for each in self.running})
        crew.settled(ended)
        if lost:
            crew.lost(lost, "everything it wrote here is rolled back")

    def _quick_ones(self, claim: Claim, subscriber: Subscriber) -> Iterator[tuple[Claim, Subscriber]]:
        """This claim and those that follow it in the queue, as long as they may share its transaction."""
        yield claim, subscriber
        crew = self._crew
        until = crew.clock.now() + GROUP_WITHIN_SECONDS
        while len(self.running) < GROUP_AT_MOST and crew.clock.now() < until and not crew.queue.empty():
            try:
                following = crew.queue.get_nowait()
            except Empty:
                return
            self._taken += following is not None
            if following is None or self._is_last_chance(following) or following.lease != claim.lease:
                return self._hold(following)
            subscriber = crew.subscribers[following.subscriber]
            if not (self._may_share(following, subscriber) and crew.lease.owns(following.lease)):
                return self._hold(following)
            self.running.append(following)
            yield following, subscriber
        return None

    def _hold(self, claim: Claim | None) -> None:
        """Took one too many: it is run next. The end-of-work mark goes back for another thread's sake too."""
        if claim is None:
            self._crew.queue.put(None)
        else:
            self._held = claim

    def _is_last_chance(self, claim: Claim) -> bool:
        return claim.rescues + 1 >= self._crew.rescue_limit

    def _may_share(self, claim: Claim, subscriber: Subscriber) -> bool:
        """Has shown to be fast, and its last group did not fall apart. A retry runs alone: the company may have been
        what made it fail."""
        if not subscriber.atomic or subscriber.alone or claim.attempt > 1:
            return False
        return self._is_quick(subscriber) and time.monotonic() >= self._crew.apart_until.get(subscriber.name, 0.0)

    def _is_quick(self, subscriber: Subscriber) -> bool:
        return self._crew.paces.get(subscriber.name, QUICK_SECONDS) < QUICK_SECONDS

    def _note_paces(self, ended: list[Ended]) -> None:
        """The mean of these, blended with what was known before."""
        times: dict[str, list[float]] = {}
        for end in ended:
            if isinstance(end.outcome, Expired):
                continue  # its handler did not run
            name = self._crew.subscribers[end.claim.subscriber].name
            times.setdefault(name, []).append(end.took_ms)
        for name, took in times.items():
            mean = sum(took) / len(took) / 1000
            before = self._crew.paces.get(name, mean)
            self._crew.paces[name] = before + (mean - before) * max(0.05, min(0.5, len(took) / 50))

    def _settle(self) -> None:
        if not self._ended:
            return
        with self._settling:
            ended, self._ended = self._ended, []
            for lease in {end.claim.lease for end in ended}:
                try:
                    self._settle_under(lease, [end for end in ended if end.claim.lease == lease])
                except Exception as error:
                    # Under this lease nobody would ever touch these again, so the lease must end.
                    self._crew.lease.abandon(f"outcomes could not be written: {str(error).strip()}", lease)
            ran = {end.claim.id for end in ended}
            self.running[:] = [claim for claim in self.running if claim.id not in ran]
        tidy_connections()
        if self._crew.queue.qsize() < self._crew.batch:
            self._crew.thread_is_free()

    def _settle_under(self, lease: int, ended: list[Ended]) -> None:
        lost = patiently(lambda: settle(self._crew.using, lease, ended))
        self._note_paces(ended)
        self._crew.settled([end for end in ended if end.claim.id not in lost] if lost else ended)
        if lost:
            gone = [end.claim for end in ended if end.claim.id in lost]
            self._crew.lost(gone, "another worker may have run it as well")

    def _fail(self, claims: list[Claim], error: BaseException) -> int:
        """What went wrong outside of the handlers counts as a failed attempt of these, as far as they are still ours;
        gives back how many that were. A lost connection says nothing about them."""
        if is_lost_connection(error):
            self._give_back(claims)
            return 0
        crew, failed = self._crew, 0
        try:
            tidy_connections()
            for claim in claims:
                on_dead = crew.subscribers[claim.subscriber].on_dead
                end = could_not_run(claim, error, started=crew.clock.now(), on_dead=on_dead)
                with limited():
                    lost = settle(crew.using, claim.lease, [end])
                if not lost:
                    failed += 1
                    crew.settled([end])
        except (DatabaseError, InterfaceError) as problem:
            tidy_connections()
            self._abandon_leases(claims, f"failures could not be written: {str(problem).strip()}")
        return failed

    def _give_back(self, claims: list[Claim]) -> None:
        try:
            with limited():
                for claim in claims:
                    release(self._crew.using, claim.lease, [claim.id])
            self._crew.wake()
        except (DatabaseError, InterfaceError) as error:
            tidy_connections()
            self._abandon_leases(claims, f"deliveries could not be given back: {str(error).strip()}")

    def _abandon_leases(self, claims: list[Claim], reason: str) -> None:
        """Those that these were claimed under. The worker may have a new lease by now, which is kept."""
        for lease in {claim.lease for claim in claims}:
            self._crew.lease.abandon(reason, lease)
