"""One handler thread: take a claim, run it, settle in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue

from django.db.backends.base.base import BaseDatabaseWrapper

from duebox.events.subscribers import Subscriber
from duebox.exceptions import LeaseLost
from duebox.store.deliveries import Claim, Ended
from duebox.worker.connections import close_connections, replace_connections
from duebox.worker.run_handler import Pair, Runner, Running, is_lost_connection, refuse_open_transaction
from duebox.worker.settle import Settler
from duebox.worker.tunables import TUNABLES
from duebox.worker.wakeup import Wakeup

logger = logging.getLogger("duebox.worker")

DELIVERY_IS_GONE = (
    "The handler deleted its own delivery or changed its lease, so that it could not be settled; "
    "leave the rows of duebox_delivery that are running alone."
)


class Inbox:
    """The claims that wait for a handler thread. None ends a thread."""

    def __init__(self, wakeup: Wakeup, limited: Collection[str] = ()) -> None:
        self.total = 0
        """How many claims were ever put in."""
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._putting = threading.Lock()
        self._wakeup = wakeup
        self._limited = limited
        """The names of handlers with a limit."""
        self._limited_done: SimpleQueue[Claim] = SimpleQueue()

    def put(self, claims: Sequence[Claim]) -> None:
        with self._putting:  # the loop does, and the thread of the limited handlers
            self.total += len(claims)
        for claim in claims:
            self._queue.put(claim)

    def put_end(self) -> None:
        """The thread that takes it ends."""
        self._queue.put(None)

    def take(self) -> Claim | None:
        return self._queue.get()

    def take_at_once(self) -> Claim | None:
        """Raises Empty where none waits."""
        return self._queue.get_nowait()

    def take_all(self) -> list[Claim]:
        taken: list[Claim] = []
        while True:
            try:
                claim = self._queue.get_nowait()
            except Empty:
                return taken
            if claim is not None:
                taken.append(claim)

    def waiting(self) -> int:
        return self._queue.qsize()

    def thread_is_free(self) -> None:
        self._wakeup.thread_is_free()

    def done(self, claims: Iterable[Claim]) -> None:
        """A handler thread has ended with these, whatever their outcome is."""
        if not self._limited:
            return
        for claim in list(claims):
            if claim.subscriber in self._limited:
                self._limited_done.put(claim)
                self._wakeup.limited_handlers.set()

    def take_limited_done(self) -> Iterator[Claim]:
        """The claims of limited handlers that have ended since the last call."""
        while True:
            try:
                yield self._limited_done.get_nowait()
            except Empty:
                return


class HandlerThread:
    """Takes claims from the inbox, lets the runner run them, and gives what they came to to the settler."""

    def __init__(self, inbox: Inbox, runner: Runner, settler: Settler, *, batch: int) -> None:
        self.running: list[Claim] = []
        """The claims that this thread works on, or has not settled yet."""
        self.finished = 0
        """How many claims this thread has taken and ended with."""
        self.connection: BaseDatabaseWrapper | None = None
        self.thread_id = 0
        self.current = Running()
        self.is_abandoned = False
        """A handler did not end in time: whatever this thread still does is ignored."""
        self._taken = 0
        self._inbox = inbox
        self._runner = runner
        self._settler = settler
        self._batch = batch
        self._next_claim: Claim | None = None
        """Taken for a group that it could not join: it runs next."""
        self._ended: list[Ended] = []
        self._is_left_behind = False
        self._has_last_chance_lock = False
        self._settling = threading.RLock()
        """Held while outcomes are written, and by a thread that leaves this one behind."""

    def leave_behind(self) -> tuple[list[Claim], list[Claim]]:
        """Called by another thread, which does not wait for this one any longer. Returns the claims that still run, and
        those that were not started and will not be. Those that have run are settled, so that they do not run again."""
        with self._settling:
            self._is_left_behind = True
            unstarted, self._next_claim = self._next_claim, None
            self._settle()
            return list(self.running), [unstarted] if unstarted is not None else []

    def abandon(self, claim: Claim) -> list[Claim]:
        """Like `leave_behind`, for a thread that hangs in this claim and is replaced. Returns the other claims that it
        had taken; none of them was settled."""
        with self._settling:
            running, unstarted = self.leave_behind()
            self.running.clear()
            self.finished = self._taken
            self._release_last_chance()
        return [each for each in running + unstarted if each is not claim]

    def is_lost(self) -> bool:
        """Whether another worker may run by now what runs here. The watchdog asks."""
        return any(self._settler.lease.is_over(claim.lease) for claim in list(self.running))

    def work(self, connection: BaseDatabaseWrapper) -> None:
        """Run claims until the inbox says that it is the end. Nothing else ends it, since the pool would not notice
        that it has one thread less."""
        self.connection = connection
        self.thread_id = threading.get_ident()
        working = True
        while working and not self.is_abandoned:
            try:
                claim = self._next()
                working = claim is not None
                if claim is not None:
                    self._run_safely(claim)
            except BaseException:
                logger.exception("unexpected error in a handler thread; it goes on")
                time.sleep(TUNABLES.thread_error_seconds)
        close_connections()

    def _next(self) -> Claim | None:
        if self._next_claim is not None:
            with self._settling:
                following, self._next_claim = self._next_claim, None
            if following is not None:
                return following
        try:
            claim = self._inbox.take_at_once()
        except Empty:
            self._settle()
            self.running.clear()
            self.finished = self._taken
            self._inbox.thread_is_free()
            claim = self._inbox.take()
            replace_connections()
        self._taken += 1
        return claim

    def _run_safely(self, claim: Claim) -> None:
        self.running.append(claim)
        try:
            self._run(claim)
        except BaseException as error:  # one bad row must not stop the thread
            logger.exception("delivery could not be run: %r", claim)
            ended = {end.claim.id for end in self._ended}
            self._fail([each for each in self.running if each.id not in ended], error)
        self._inbox.done(self.running)
        if not self._ended or self._ended[-1].claim is not claim:
            self.running[:] = [end.claim for end in self._ended]
        elif self._is_time_to_settle(self._ended):
            self._settle()

    def _is_time_to_settle(self, ended: list[Ended]) -> bool:
        waited = self._runner.clock.now() - ended[0].started
        return len(ended) >= TUNABLES.settle_at_most or waited > TUNABLES.settle_within_seconds

    def _run(self, claim: Claim) -> None:
        if not self._owns(claim.lease):
            return  # it was released, or another worker rescues it
        subscriber = self._runner.subscribers[claim.subscriber]
        if self._runner.is_last_chance(claim):
            self._run_last_chance(claim, subscriber)
        elif self._runner.may_share(claim, subscriber):
            self._run_group(claim, subscriber)
        else:
            if not self._runner.is_quick(subscriber):
                self._settle()  # those that have run do not wait for it
            self._run_alone(claim, subscriber)

    def _owns(self, lease: int) -> bool:
        return not self._is_left_behind and self._settler.lease.owns(lease)

    def _run_alone(self, claim: Claim, subscriber: Subscriber) -> None:
        try:
            end, written = self._runner.run(claim, subscriber, self.current)
        except LeaseLost as lost:
            if not self.is_abandoned and not self._fail([claim], LeaseLost(DELIVERY_IS_GONE)):
                self._settler.lost([claim], str(lost))
            return
        if self.is_abandoned:
            logger.warning("handler ended after its timeout, its result is ignored: %r", claim)
        elif written:
            self._runner.note_durations([end])
            self._settler.settled([end])
        elif not (subscriber.atomic and self._is_left_behind):  # else its connection was closed, and it was released
            assert self.connection is not None, "this thread has a connection of its own"
            end = refuse_open_transaction(end, subscriber, self.connection)
            with self._settling:
                self._ended.append(end)

    def _run_last_chance(self, claim: Claim, subscriber: Subscriber) -> None:
        """Announced and alone: if it ends the process, it is known which one did."""
        self._settle()
        self._runner.last_chance.acquire()
        self._has_last_chance_lock = True
        try:
            if not self._owns(claim.lease):
                return  # lost while it waited for the lock
            self._runner.announce(claim, runs=True)
            self._run_alone(claim, subscriber)
            self._settle()
            if not self.is_abandoned:  # else another one may be announced by now
                self._runner.announce(claim, runs=False)
        finally:
            self._release_last_chance()

    def _release_last_chance(self) -> None:
        """By this thread, or by the one that replaces it."""
        with self._settling:
            if self._has_last_chance_lock:
                self._has_last_chance_lock = False
                self._runner.last_chance.release()

    def _run_group(self, claim: Claim, subscriber: Subscriber) -> None:
        self._settle()
        try:
            ended, together = self._runner.run_together(self._group(claim, subscriber), self._owns, self.current)
        except LeaseLost:
            ended, together = [], False
        if self.is_abandoned:
            logger.warning("handler ended after its timeout, its result is ignored: %r", claim)
            return
        settled = {end.claim.id for end in ended}
        lost = [each for each in self.running if each.id not in settled]
        self._settler.release_at_once(lost)
        self._runner.note_durations(ended)
        if not together:
            self._runner.keep_apart(self.running)
        self._settler.settled(ended)
        if lost:
            self._settler.lost(lost, "everything it wrote here is rolled back")

    def _group(self, claim: Claim, subscriber: Subscriber) -> Iterator[Pair]:
        """This claim and those that follow it in the inbox, as long as they may share its transaction."""
        yield claim, subscriber
        runner, clock, inbox = self._runner, self._runner.clock, self._inbox
        until = clock.now() + TUNABLES.group_within_seconds
        while len(self.running) < TUNABLES.group_at_most and clock.now() < until:
            try:
                following = inbox.take_at_once()
            except Empty:
                return
            if following is None:
                inbox.put_end()  # for the end of this thread, or of another
                return
            self._taken += 1
            subscriber = runner.subscribers[following.subscriber]
            if (
                runner.is_last_chance(following)
                or following.lease != claim.lease
                or not runner.may_share(following, subscriber)
                or not self._settler.lease.owns(following.lease)
            ):
                self._next_claim = following
                return
            self.running.append(following)
            yield following, subscriber

    def _settle(self) -> None:
        if not self._ended:
            return
        with self._settling:
            ended, self._ended = self._ended, []
            for lease in {end.claim.lease for end in ended}:
                mine = [end for end in ended if end.claim.lease == lease]
                try:
                    self._runner.note_durations(mine)
                    self._settler.settle(lease, mine, if_lost="another worker may have run it as well")
                except Exception as error:
                    # No thread of this worker would settle them again, so the lease must end.
                    self._settler.lease.abandon(f"outcomes could not be written: {str(error).strip()}", lease)
            ran = {end.claim.id for end in ended}
            self.running[:] = [claim for claim in self.running if claim.id not in ran]
        replace_connections()
        if self._inbox.waiting() < self._batch:
            self._inbox.thread_is_free()

    def _fail(self, claims: list[Claim], error: BaseException) -> int:
        """An error outside the handlers counts as a failed attempt of these, if they are still this worker's. Returns
        how many were. A lost connection is not their fault: they are released."""
        if is_lost_connection(error):
            self._settler.release_at_once(claims)
            return 0
        return self._settler.fail([self._runner.could_not_run(claim, error) for claim in claims])
