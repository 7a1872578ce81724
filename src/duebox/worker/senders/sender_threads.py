"""The threads that call destinations. They take from the queues in turn and use no database connection."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from queue import SimpleQueue
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError

from duebox.context.logging import is_watched, watched
from duebox.destinations.base import Destination, DestinationPolicy, Result
from duebox.events.fact import Fact
from duebox.events.outcomes import Dead, Delivered, Discard, Outcome, Retried, Snooze
from duebox.exceptions import InvalidDestination, Permanent, Throttled, Undelivered
from duebox.store import leases
from duebox.store.deliveries import Claim, Ended
from duebox.worker.connections import close_connections, own_connection, replace_connections
from duebox.worker.lease import Clock
from duebox.worker.resources import Resources
from duebox.worker.run_handler import FAILURES, by_policy, could_not_run, is_lost_connection
from duebox.worker.senders.destination_queue import SLOW, UNKNOWN, Bundle, DestinationQueue
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limited

ANSWERS = (type(None), Delivered, Snooze, Discard, Exception)


def send(bundle: Bundle, clock: Clock) -> list[Ended]:
    """Make one call. Never raises: an error is the outcome of the events."""
    started, begun = clock.now(), time.perf_counter()
    queue = bundle.queue
    expired = {id(each): outcome for each in bundle.claims if (outcome := each.expired())}
    whole = [each for each in bundle.claims if not each.event_is_gone and id(each) not in expired]
    results = dict(zip(map(id, whole), _results(queue.name, queue.destination, whole), strict=True)) if whole else {}
    took = (time.perf_counter() - begun) * 1000
    gone = Discard("its event was deleted")
    return [
        Ended(
            each,
            expired.get(id(each)) or outcome_of(results.get(id(each), gone), each, queue.policy),
            started,
            took,
        )
        for each in bundle.claims
    ]


def _results(name: str, destination: Destination, claims: Sequence[Claim]) -> Sequence[Result]:
    facts = [claim.fact for claim in claims]
    try:
        results = list(_deliver(name, destination, facts))
    except FAILURES as error:
        return [_as_exception(error)] * len(facts)
    if len(results) != len(facts):
        wrong = InvalidDestination(
            f"{destination!r} gave {len(results)} answers for {len(facts)} events; deliver() owes one for each."
        )
        return [wrong] * len(facts)
    return [each if isinstance(each, ANSWERS) else _no_answer(destination, each) for each in results]


def _no_answer(destination: Destination, given: object) -> InvalidDestination:
    return InvalidDestination(
        f"{destination!r} answered with a {type(given).__name__}; deliver() gives None, Delivered, Snooze, Discard or "
        "an error for each event."
    )


def _deliver(name: str, destination: Destination, facts: Sequence[Fact]) -> Sequence[Result]:
    if len(facts) == 1 and is_watched():
        answers: Sequence[Result] = watched(lambda fact: destination.deliver([fact]), facts[0], name)
        return answers
    return destination.deliver(facts)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else Undelivered(f"{type(error).__name__}: {error}")


def outcome_of(result: Result, claim: Claim, policy: DestinationPolicy) -> Outcome:
    if result is None or isinstance(result, Delivered | Snooze | Discard):
        return result
    return by_policy(policy.retry, claim, result, on_dead=policy.on_dead)


def is_success(outcome: Outcome) -> bool:
    return outcome is None or isinstance(outcome, Delivered)


def seconds_asked(ended: Sequence[Ended]) -> float:
    """How long the destination asked not to be called."""
    errors = [failure_of(end.outcome) for end in ended]
    return max((error.seconds for error in errors if isinstance(error, Throttled)), default=0.0)


def failure_of(outcome: Outcome) -> BaseException | None:
    """The error, if it says something about the destination and not only about the event."""
    if isinstance(outcome, Retried | Dead) and not isinstance(outcome.error, Permanent):
        return outcome.error
    return None


logger = logging.getLogger("duebox.worker")


class Done(NamedTuple):
    """The outcomes of a call. Claims without one were not sent."""

    bundle: Bundle
    ended: list[Ended]


class SenderThreads:
    """At most so many threads. Slow destinations use at most three eighths of them, and slow ones and those that have
    not answered yet together at most six: many destinations that hang must not block those that answer quickly."""

    def __init__(self, resources: Resources, most: int) -> None:
        self.done: SimpleQueue[Done] = SimpleQueue()
        self._resources = resources
        self._most = most
        self.lock = threading.Condition()
        """Held while queues are read or changed."""
        self._turns: dict[str, DestinationQueue] = {}
        """The queues where something waits, in the order in which they are served."""
        self._running: set[Bundle] = set()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._notified = 0
        """How many idle threads were notified and have not woken up yet."""
        self._stopping = False

    def put(self, queue: DestinationQueue, claims: list[Claim]) -> bool:
        """False if the threads are stopping."""
        with self.lock:
            if self._stopping:
                return False
            queue.waiting.extend(claims)
            self._turns.setdefault(queue.name, queue)
            bundles = -(-len(claims) // queue.destination.batch_size)
            wanted = min(bundles, queue.policy.concurrency)
            free = max(0, self._idle - self._notified)
            for _ in range(min(wanted - free, self._most - len(self._threads))):
                self._start_thread()
            self._notified += min(wanted, free)
            self.lock.notify(min(wanted, free))
        return True

    def clear(self, queue: DestinationQueue) -> list[Claim]:
        """Take out what waits for a destination, to be released."""
        with self.lock:
            self._turns.pop(queue.name, None)
            return queue.clear()

    def untrip(self, queue: DestinationQueue, judged: int) -> None:
        """So many calls were judged. Calls may start again, unless another one has ended meanwhile."""
        with self.lock:
            queue.unjudged -= judged
            if queue.tripped and not queue.unjudged:
                queue.tripped = False
                self.lock.notify_all()

    def running(self) -> list[Claim]:
        with self.lock:
            return [claim for bundle in self._running for claim in bundle.claims]

    def busy(self) -> bool:
        with self.lock:
            return bool(self._turns or self._running) or not self.done.empty()

    def stop(self) -> list[Claim]:
        """Start nothing more; returns what waits."""
        with self.lock:
            self._stopping = True
            self.lock.notify_all()
            waiting = [claim for queue in self._turns.values() for claim in queue.clear()]
            self._turns.clear()
        return waiting

    def join(self, deadline: float) -> None:
        for thread in list(self._threads):
            thread.join(min(threading.TIMEOUT_MAX, max(0.0, deadline - time.monotonic())))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"duebox-sender-{len(self._threads)}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        with own_connection(self._resources.using, self._resources.watchdog, threading.current_thread().name):
            try:
                while (bundle := self._next()) is not None:
                    self._send_safely(bundle)
            finally:
                close_connections()

    def _send_safely(self, bundle: Bundle) -> None:
        ended: list[Ended] = []
        try:
            replace_connections()  # some destinations use the database
            if self._resources.lease.owns(bundle.claims[0].lease):  # otherwise the worker that rescues it sends it
                ended = self._send(bundle)
        except BaseException as error:
            logger.exception("events could not be sent: destination=%s", bundle.queue.name)
            ended = [] if is_lost_connection(error) else self._failed(bundle, error)
        with self.lock:
            bundle.queue.end(bundle, ended, sum(failure_of(each.outcome) is not None for each in ended))
            bundle.queue.tripped = bundle.queue.tripped or seconds_asked(ended) > 0
            bundle.queue.unjudged += 1
            self.done.put(Done(bundle, ended))
            self._running.discard(bundle)
        self._resources.wakeup.sender.set()

    def _failed(self, bundle: Bundle, error: BaseException) -> list[Ended]:
        now, on_dead = self._resources.clock.now(), bundle.queue.policy.on_dead
        return [could_not_run(each, error, started=now, on_dead=on_dead) for each in bundle.claims]

    def _send(self, bundle: Bundle) -> list[Ended]:
        resources, first = self._resources, bundle.claims[0]
        if first.rescues + 1 < resources.rescue_limit:
            return send(bundle, resources.clock)
        # On its last chance it is announced and sent alone: if it ends the process, it is known which one did.
        with resources.last_chance:
            if not resources.lease.owns(first.lease):
                return []  # lost while it waited for the lock
            with limited():
                leases.announce_suspect(resources.using, first.lease, first.id)
            ended = send(bundle, resources.clock)
            try:
                with limited():
                    leases.announce_suspect(resources.using, first.lease, None)
            except (DatabaseError, InterfaceError) as error:  # the outcome counts all the same
                logger.warning(
                    "the end of a delivery on its last chance was not stored: %r %s", first, str(error).strip()
                )
        return ended

    def _next(self) -> Bundle | None:
        """The next call; None when there is nothing to do any more."""
        called = True
        with self.lock:
            while not self._stopping:
                if (bundle := self._turn()) is not None:
                    return bundle
                if not called:
                    break  # idle for long enough
                self._idle += 1
                called = self.lock.wait(TUNABLES.idle_sender_thread_seconds)
                self._idle -= 1
                self._notified = max(0, self._notified - 1) if self._idle else 0
            self._threads.discard(threading.current_thread())
            return None

    def _turn(self) -> Bundle | None:
        """From the first queue that may start a call; that queue is served again after all others."""
        taken = Counter(bundle.queue.kind for bundle in self._running)
        full = {
            SLOW: taken[SLOW] >= max(1, self._most * TUNABLES.slow_threads_eighths // 8),
            UNKNOWN: taken[SLOW] + taken[UNKNOWN] >= max(1, self._most * TUNABLES.slow_or_unknown_threads_eighths // 8),
        }
        for queue in self._turns.values():
            if queue.may_start() and not full.get(queue.kind):
                bundle = queue.take(self._resources.rescue_limit)
                self._running.add(bundle)
                del self._turns[queue.name]
                if queue.waiting:
                    self._turns[queue.name] = queue
                return bundle
        return None
