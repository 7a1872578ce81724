"""The queues of destinations in this worker: which events wait, which calls run, and how the last ones ended."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from duebox.destinations.base import Destination, DestinationPolicy
from duebox.destinations.registry import Subscription
from duebox.events.address import Address
from duebox.store import destinations
from duebox.store.deliveries import Claim, Ended
from duebox.store.destinations import Bucket
from duebox.worker.tunables import TUNABLES

QUICK, SLOW, UNKNOWN = "quick", "slow", "unknown"


def kind_of(pace: float | None) -> str:
    return UNKNOWN if pace is None else SLOW if pace > TUNABLES.slow_destination_seconds else QUICK


class Bundle:
    """Events that go out in one call."""

    __slots__ = ("claims", "ended", "queue", "started")

    def __init__(self, queue: DestinationQueue, claims: list[Claim]) -> None:
        self.queue = queue
        self.claims = claims
        self.started = time.monotonic()
        self.ended: list[Ended] | None = None
        """The outcomes; None while the call runs."""


class DestinationQueue:
    def __init__(
        self, name: str, destination: Destination, policy: DestinationPolicy, pace: float | None = None
    ) -> None:
        self.name = name
        self.destination = destination
        self.policy = policy
        self.waiting: deque[Claim] = deque()
        self.running: set[Bundle] = set()
        self.sending = 0
        """How many events are in calls that run."""
        self.pace = pace
        """The mean duration of a call, in seconds; None before the first answer."""
        self.recent: deque[list[int]] = deque()
        """For each of the last seconds: which one, how many events were sent, how many of them failed."""
        self.tripped = False
        """So many failed that no call is started until the circuit breaker has decided."""
        self.unjudged = 0
        """How many ended calls the circuit breaker has not evaluated yet."""
        self.probing = False
        """The pause is over, and this worker tries one event."""
        self.probe: Bundle | None = None
        """The call that was started for that. Only its answer counts: others may have begun before the pause."""
        self.recovered_at = 0.0
        """When a probe was accepted; calls that began before do not count."""
        self.failing_since: float | None = None
        self.stored_failing_at = 0.0
        """When it was last stored that it fails."""
        self.has_bucket = False
        self.look_at = 0.0
        """When to look again for what its rate did not allow."""

    @property
    def held(self) -> int:
        return len(self.waiting) + self.sending

    @property
    def bucket(self) -> Bucket | None:
        return Bucket(self.policy.rate, self.policy.bucket) if self.policy.rate else None

    def room(self) -> int:
        """How many more to claim: as many as can be started soon, and none while enough wait. Another worker could send
        what waits too long here."""
        target = self._calls_at_once() * self.destination.batch_size
        if self.policy.rate:  # a claim spends tokens: events that wait here would be sent in a burst
            return max(0, max(target, math.ceil(self.policy.rate * TUNABLES.destination_tokens_seconds)) - self.held)
        if self.pace is not None and self.pace < TUNABLES.claim_ahead_seconds:
            target = max(
                2 * target,
                min(TUNABLES.waiting_at_most, int(target * TUNABLES.claim_ahead_seconds / max(self.pace, 1e-6))),
            )
        held = self.held
        return target - held if held <= target // 2 or held < self.destination.batch_size else 0

    def may_start(self) -> bool:
        if not self.waiting or self.tripped:
            return False
        if self.probing:  # it does not wait for calls that began before the pause
            return self.probe not in self.running and len(self.running) < self.policy.concurrency
        return len(self.running) < self._calls_at_once()

    @property
    def kind(self) -> str:
        """`slow`: the mean call, or one that runs now, takes too long. `unknown`: no call has ended yet."""
        late = time.monotonic() - TUNABLES.slow_destination_seconds
        if any(bundle.started < late for bundle in self.running):
            return SLOW
        return kind_of(self.pace)

    def take(self, rescue_limit: int) -> Bundle:
        """The events of the next call. One that is on its last chance is sent alone, and so is a probe."""
        claims = [self.waiting.popleft()]
        while self.waiting and len(claims) < self.destination.batch_size and not self.probing:
            if rescue_limit <= 1 + max(claims[0].rescues, self.waiting[0].rescues):
                break
            claims.append(self.waiting.popleft())
        bundle = Bundle(self, claims)
        if self.probing:
            self.probe = bundle
        self.running.add(bundle)
        self.sending += len(claims)
        return bundle

    def end(self, bundle: Bundle, ended: list[Ended], failed: int) -> None:
        now = time.monotonic()
        bundle.ended = ended
        self.running.discard(bundle)
        self.sending -= len(bundle.claims)
        took = now - bundle.started
        self.pace = took if self.pace is None else self.pace + (took - self.pace) * TUNABLES.call_duration_weight
        if not self.probing and bundle.started >= self.recovered_at:
            self._count(int(now), len(ended), failed)

    def _count(self, second: int, tried: int, failed: int) -> None:
        if not self.recent or self.recent[-1][0] != second:
            self.recent.append([second, 0, 0])
        self.recent[-1][1] += tried
        self.recent[-1][2] += failed
        self.forget()
        self.tripped = self.tripped or (failed > 0 and self.breaks())

    def answer_of_probe(self) -> list[Ended] | None:
        """None while it runs; empty where it could not be sent."""
        if self.probe is None or self.probe.ended is None:
            return None
        answer, self.probe, self.probing = self.probe.ended, None, False
        return answer

    def breaks(self) -> bool:
        """Whether so many events failed lately that the circuit breaker should open."""
        breaker = self.policy.breaker
        if breaker is None:
            return False
        self.forget()
        tried = sum(each[1] for each in self.recent)
        failed = sum(each[2] for each in self.recent)
        return tried >= breaker.calls and failed >= breaker.share * tried

    def forget(self) -> None:
        """Drop the counts of seconds before the window of the circuit breaker."""
        since = time.monotonic() - (self.policy.breaker.window if self.policy.breaker else 0.0)
        while self.recent and self.recent[0][0] < since:
            self.recent.popleft()

    def clear(self) -> list[Claim]:
        """Take out what waits, to be released."""
        waiting = list(self.waiting)
        self.waiting.clear()
        return waiting

    def _calls_at_once(self) -> int:
        """One until the first answer, and while one event is tried."""
        return 1 if self.pace is None or self.probing else self.policy.concurrency


logger = logging.getLogger("duebox.worker")


class DestinationQueues:
    def __init__(self, using: str, subscriptions: Mapping[str, Subscription]) -> None:
        self._using = using
        self._subscriptions = subscriptions
        self._queues: dict[str, DestinationQueue] = {}
        self._logged_at: dict[str, float] = {}
        self._paces: dict[str, float] = {}
        """For those that have nothing to do now: one that answered quickly last time will do so again."""

    def __getitem__(self, name: str) -> DestinationQueue:
        return self._queues[name]

    def __iter__(self) -> Iterator[DestinationQueue]:
        return iter(list(self._queues.values()))

    def find(self, name: str) -> DestinationQueue | None:
        return self._queues.get(name)

    def knows(self, name: str) -> bool:
        return _alias(name) in self._subscriptions

    def kind(self, name: str) -> str:
        queue = self._queues.get(name)
        return queue.kind if queue else kind_of(self._paces.get(name))

    def waiting(self) -> Counter[str]:
        """How many of each kind have events that wait."""
        return Counter(queue.kind for queue in self if queue.waiting)

    def prepare(self, names: list[str]) -> None:
        """Let destinations with many endpoints read those that are opened next together."""
        keys: dict[str, list[str]] = {}
        for name in names:
            address = Address.parse(name)
            if address.key:
                keys.setdefault(address.alias, []).append(address.key)
        for alias, some in keys.items():
            try:
                self._subscriptions[alias].destination(self._using).prepare(some)
            except Exception as error:
                self._log_broken(str(Address.of_destination(alias)), error)

    def open(self, name: str) -> DestinationQueue | None:
        """The queue of a destination as it is configured now; None if the destination cannot be created, whatever the
        reason: the others are served all the same."""
        try:
            destination, policy = self._destination(name)
        except Exception as error:
            self._log_broken(name, error)
            return None
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = DestinationQueue(name, destination, policy, pace=self._paces.pop(name, None))
        queue.destination, queue.policy = destination, policy
        if queue.bucket and not queue.has_bucket:
            destinations.create_buckets(self._using, {name: queue.bucket})
            queue.has_bucket = True
        return queue

    def is_broken(self, name: str) -> bool:
        return name in self._logged_at

    def forget(self, queue: DestinationQueue) -> None:
        self._queues.pop(queue.name, None)
        if queue.pace is not None:
            self._paces[queue.name] = queue.pace
            if len(self._paces) > TUNABLES.remembered_destinations:
                del self._paces[next(iter(self._paces))]

    def without(self, names: Collection[str]) -> list[DestinationQueue]:
        """The queues of all other destinations."""
        return [queue for queue in self if queue.name not in names]

    def _destination(self, name: str) -> tuple[Destination, DestinationPolicy]:
        address = Address.parse(name)
        subscription = self._subscriptions[address.alias]
        whole = subscription.destination(self._using)
        self._logged_at.pop(name, None)
        if not address.key:
            return whole, subscription.policy
        part = whole.part(address.key)
        rate, burst = part.policy.rate, part.policy.burst
        return part, replace(subscription.policy, rate=rate, burst=burst) if rate else subscription.policy

    def _log_broken(self, name: str, error: Exception) -> None:
        if time.monotonic() > self._logged_at.get(name, float("-inf")) + TUNABLES.log_broken_destination_seconds:
            self._logged_at[name] = time.monotonic()
            logger.error("destination cannot be used, its events wait: name=%s error=%r", name, error)


def _alias(name: str) -> str:
    return Address.parse(name).alias
