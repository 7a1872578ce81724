"""The thread between the database and the sender threads: it settles ended calls, claims what there is room for, and
sleeps."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from queue import Empty

from django.db import DatabaseError, InterfaceError

from duebox import clock
from duebox.conf import conf
from duebox.destinations.registry import Subscription
from duebox.events.subscribers import Subscriber
from duebox.store import destinations
from duebox.store.deliveries import Claim
from duebox.store.destinations import Ready
from duebox.worker.claimer import NotifyMode
from duebox.worker.connections import close_connections, own_connection, replace_connections
from duebox.worker.handler_thread import Inbox
from duebox.worker.resources import Resources
from duebox.worker.senders.circuit_breaker import judge
from duebox.worker.senders.claim import DestinationClaimer, ReadyDestinations
from duebox.worker.senders.destination_queue import DestinationQueue, DestinationQueues
from duebox.worker.senders.sender_threads import Done, SenderThreads
from duebox.worker.settle import Settler
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")


def sender_of(
    resources: Resources, settler: Settler, inbox: Inbox, mode: NotifyMode, subscribers: Iterable[Subscriber]
) -> Sender | None:
    """For the destinations among the subscribers of a worker; None where there are none."""
    destinations = {each.alias: each for each in subscribers if isinstance(each, Subscription)}
    return Sender(resources, settler, inbox, mode, destinations) if destinations else None


class Sender:
    def __init__(
        self,
        resources: Resources,
        settler: Settler,
        inbox: Inbox,
        mode: NotifyMode,
        subscriptions: dict[str, Subscription],
    ) -> None:
        self._rounds = 0
        """How often it has looked and found nothing to do."""
        self._claimed = 0
        self._asked: tuple[int, int] | None = None
        self._resources = resources
        self._using = resources.using
        self._lease = resources.lease
        self._wake = resources.wakeup.sender
        self._settler = settler
        self._inbox = inbox
        self._mode = mode
        self._sender_threads = SenderThreads(resources, conf().DESTINATION_THREADS)
        self._queues = DestinationQueues(self._using, subscriptions)
        self._ready = ReadyDestinations(self._using)
        self._claimer = DestinationClaimer(self._using, settler, self._queues)
        self._look_for_pauses_at = 0.0
        self._errors = 0
        self._stopping = False
        self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="duebox-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def busy(self) -> bool:
        return self._sender_threads.busy()

    def settled_down(self) -> bool:
        """Whether nothing was claimed, here or for handlers, since this was asked first. Two rounds must have passed,
        since one may have begun before."""
        done = self._claimed + self._inbox.total
        rounds, before = self._asked or (self._rounds, -1)
        if done == before and self._rounds >= rounds + 2 and not self.busy():
            return True
        if done != before:
            self._asked = (self._rounds, done)
        self._wake.set()
        return False

    def stop(self) -> None:
        """Claim and start nothing more."""
        self._stopping = True
        self._settler.release(self._sender_threads.stop(), "not started")
        self._wake.set()

    def finish(self, deadline: float, *, lives_on: bool) -> None:
        """Wait for running calls, and release those that do not end in time. Where the process lives on they are not
        released: they end in their own time, and no other worker sends their events till then."""
        self._sender_threads.join(deadline)
        self._thread.join(min(threading.TIMEOUT_MAX, max(1.0, deadline - time.monotonic())))
        self._is_left_behind = lives_on
        if not lives_on:
            self._settler.release(self._sender_threads.running(), "still being sent at the deadline")

    def is_at_work(self) -> bool:
        """Whether a call still runs whose events were not released."""
        return self._is_left_behind and self._thread.is_alive()

    def join(self) -> None:
        """Wait for it, however long it takes."""
        self._thread.join()

    def _run(self) -> None:
        with own_connection(self._using, self._resources.watchdog, "destinations", engine=True):
            try:
                while not (self._stopping and not self.busy()):
                    if self._wake.wait(self._round()) and self._sender_threads.busy():
                        time.sleep(TUNABLES.gather_seconds)
                    self._wake.clear()
            finally:
                close_connections()

    def _round(self) -> float:
        """Settle and claim once; returns how long to sleep. After an error it is not known what was claimed or settled,
        so the lease ends, and another worker rescues what was claimed under it."""
        lease = self._lease.id
        try:
            with limited():
                replace_connections()
            self._settle()
            lease = self._lease.id
            if self._stopping or not lease:
                return TUNABLES.poll_without_notify_seconds
            with limited():
                delay = self._claim(lease)
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            self._lease.abandon(f"destinations could not be served: {str(error).strip()}", lease)
            close_connections()
            delay = TUNABLES.retry_waits[min(self._errors, len(TUNABLES.retry_waits) - 1)]
            self._errors += 1
        except Exception:
            logger.exception("unexpected error between database and destinations; it goes on")
            self._lease.abandon("an unexpected error", lease)
            delay = TUNABLES.retry_waits[0]
        return delay

    def _settle(self) -> None:
        done = self._take_done()
        by_queue: dict[DestinationQueue, list[Done]] = {}
        for each in done:
            by_queue.setdefault(each.bundle.queue, []).append(each)
        try:
            self._write(done)
        finally:
            for queue, mine in by_queue.items():
                self._judge(queue, mine)

    def _write(self, done: list[Done]) -> None:
        ended = [end for each in done for end in each.ended]
        for lease in {end.claim.lease for end in ended}:
            mine = [end for end in ended if end.claim.lease == lease]
            self._settler.settle(lease, mine, if_lost="another worker may have sent it as well")
        sent = {end.claim.id for end in ended}
        self._settler.release([c for each in done for c in each.bundle.claims if c.id not in sent], "not sent")

    def _judge(self, queue: DestinationQueue, done: list[Done]) -> None:
        """Whatever fails: a queue that was not judged would start no call any more."""
        try:
            if judge(self._using, queue, [end for each in done for end in each.ended]):
                self._settler.release(self._sender_threads.clear(queue), "its destination is unavailable")
        except Exception:
            queue.probing = False
            logger.exception("the state of a destination could not be stored: name=%s", queue.name)
        finally:
            # After its events were released: otherwise one of them would be started.
            self._sender_threads.untrip(queue, len(done))

    def _take_done(self) -> list[Done]:
        found = []
        while True:
            try:
                found.append(self._sender_threads.done.get_nowait())
            except Empty:
                return found

    def _claim(self, lease: int) -> float:
        """Take what is due and has room; returns the seconds until there may be more."""
        was_idle = not self.busy()
        self._release_paused()
        names = [each for each in self._ready.names() if self._queues.knows(each.name)]
        claims = self._claimer.claim(names, lease)
        self._claimed += len(claims)
        by_queue: dict[str, list[Claim]] = {}
        for each in claims:
            by_queue.setdefault(each.subscriber, []).append(each)
        for name, mine in by_queue.items():
            if not self._sender_threads.put(self._queues[name], mine):
                self._settler.release(mine, "not started")
        if self._ready.more:
            return TUNABLES.gather_seconds
        if was_idle and not claims and not any(map(self._is_left_for_later, names)):
            self._rounds += 1
            if self._asked is not None:
                self._resources.wakeup.claim()  # the loop waits until all is done
        self._forget_idle_queues(self._ready.all_names())
        return min((self._seconds_until(each) for each in names), default=self._mode.longest_sleep())

    def _release_paused(self) -> None:
        """Release the events of destinations that an operator has paused, or that another worker found failing."""
        waiting = {queue.name: queue for queue in self._queues if queue.waiting and not queue.probing}
        if not waiting or time.monotonic() < self._look_for_pauses_at:
            return
        self._look_for_pauses_at = time.monotonic() + TUNABLES.look_for_pauses_seconds
        for name in destinations.unavailable(self._using, waiting):
            self._settler.release(self._sender_threads.clear(waiting[name]), "its destination is unavailable")

    def _is_left_for_later(self, each: Ready) -> bool:
        """Whether it is due and only the rate holds it back."""
        return each.due_in <= 0 and not each.paused and each.opens_in is None and not self._queues.is_broken(each.name)

    def _seconds_until(self, each: Ready) -> float:
        """When to look at this destination again; a call that ends before wakes this thread."""
        longest = self._mode.longest_sleep()
        queue = self._queues.find(each.name)
        if each.paused or (queue is not None and queue.room() <= 0):
            return longest
        wait = clock.real_seconds(max(0.0, each.due_in))
        if each.opens_in is not None:
            wait = max(wait, each.opens_in + 0.001)
        elif queue is not None and queue.bucket:
            wait = max(wait, queue.look_at - time.monotonic())
        elif each.due_in <= 0:
            wait = TUNABLES.poll_without_notify_seconds  # another worker holds it, or it was just claimed
        return min(longest, max(0.0, wait))

    def _forget_idle_queues(self, names: set[str]) -> None:
        for queue in self._queues.without(names):
            with self._sender_threads.lock:
                queue.forget()
                if not queue.held and not queue.failing_since and not queue.recent:
                    self._queues.forget(queue)
