"""One destination as this worker sees it: what waits for it, what is on its way, how it fared of late."""

from __future__ import annotations

import math
import time
from collections import deque

from duebox.destinations.base import Destination
from duebox.destinations.terms import Terms
from duebox.store.deliveries import Claim, Ended
from duebox.store.gates import Bucket

HORIZON_SECONDS = 0.25
SLOW_SECONDS = 1.0
MOST_WAITING = 500
KEPT_SECONDS = 0.1
QUICK, SLOW, UNKNOWN = "quick", "slow", "unknown"


def kind_of(pace: float | None) -> str:
    return UNKNOWN if pace is None else SLOW if pace > SLOW_SECONDS else QUICK


class Bundle:
    """Events that go out in one call."""

    __slots__ = ("claims", "desk", "ended", "started")

    def __init__(self, desk: Desk, claims: list[Claim]) -> None:
        self.desk = desk
        self.claims = claims
        self.started = time.monotonic()
        self.ended: list[Ended] | None = None
        """What came of it; None while it is on its way."""


class Desk:
    def __init__(self, name: str, destination: Destination, terms: Terms, pace: float | None = None) -> None:
        self.name = name
        self.destination = destination
        self.terms = terms
        self.waiting: deque[Claim] = deque()
        self.running: set[Bundle] = set()
        self.carried = 0
        """How many events are on their way."""
        self.pace = pace
        """Seconds that a call takes; None before the first answer."""
        self.recent: deque[list[int]] = deque()
        """Second by second: which one, how many events were tried, how many of them failed."""
        self.tripped = False
        """So much failed that nothing more is started until that was judged."""
        self.unjudged = 0
        """How many calls have ended of which nobody has looked at what they say about the destination."""
        self.probing = False
        """Its pause is over, and this worker tries one event."""
        self.probe: Bundle | None = None
        """The call that was started for it. Only its answer tells: others may have begun before the pause."""
        self.well_since = 0.0
        """When a probe was taken; calls that began before say nothing about it."""
        self.failing_since: float | None = None
        self.told_at = 0.0
        self.has_bucket = False
        self.look_at = 0.0
        """When to look again for what its rate did not allow."""

    @property
    def held(self) -> int:
        return len(self.waiting) + self.carried

    @property
    def bucket(self) -> Bucket | None:
        return Bucket(self.terms.rate, self.terms.bucket) if self.terms.rate else None

    def room(self) -> int:
        """How many more to claim: what can be started soon, and nothing while there is plenty. What holds too much here
        could be carried by another worker."""
        target = self._calls_at_once() * self.destination.batch_size
        if self.terms.rate:  # a token is spent with the claim: what is kept for later would go at once after a hiccup
            return max(0, max(target, math.ceil(self.terms.rate * KEPT_SECONDS)) - self.held)
        if self.pace is not None and self.pace < HORIZON_SECONDS:
            target = max(2 * target, min(MOST_WAITING, int(target * HORIZON_SECONDS / max(self.pace, 1e-6))))
        held = self.held
        return target - held if held <= target // 2 or held < self.destination.batch_size else 0

    def may_start(self) -> bool:
        if not self.waiting or self.tripped:
            return False
        if self.probing:  # it does not wait for calls of before the pause
            return self.probe not in self.running and len(self.running) < self.terms.concurrency
        return len(self.running) < self._calls_at_once()

    @property
    def kind(self) -> str:
        """Slow is also one of whose calls one takes long right now; unknown is who has never answered."""
        late = time.monotonic() - SLOW_SECONDS
        if any(bundle.started < late for bundle in self.running):
            return SLOW
        return kind_of(self.pace)

    def take(self, rescue_limit: int) -> Bundle:
        """The next bundle. One that is on its last chance goes alone, and so does a probe."""
        claims = [self.waiting.popleft()]
        while self.waiting and len(claims) < self.destination.batch_size and not self.probing:
            if rescue_limit <= 1 + max(claims[0].rescues, self.waiting[0].rescues):
                break
            claims.append(self.waiting.popleft())
        bundle = Bundle(self, claims)
        if self.probing:
            self.probe = bundle
        self.running.add(bundle)
        self.carried += len(claims)
        return bundle

    def end(self, bundle: Bundle, ended: list[Ended], failed: int) -> None:
        now = time.monotonic()
        bundle.ended = ended
        self.running.discard(bundle)
        self.carried -= len(bundle.claims)
        took = now - bundle.started
        self.pace = took if self.pace is None else self.pace + (took - self.pace) * 0.2
        if not self.probing and bundle.started >= self.well_since:
            self._count(int(now), len(ended), failed)

    def _count(self, second: int, tried: int, failed: int) -> None:
        if not self.recent or self.recent[-1][0] != second:
            self.recent.append([second, 0, 0])
        self.recent[-1][1] += tried
        self.recent[-1][2] += failed
        self.forget()
        self.tripped = self.tripped or (failed > 0 and self.breaks())

    def answer_of_probe(self) -> list[Ended] | None:
        """None while it is on its way; empty where it did not get a fair chance."""
        if self.probe is None or self.probe.ended is None:
            return None
        answer, self.probe, self.probing = self.probe.ended, None, False
        return answer

    def breaks(self) -> bool:
        """Whether so much has failed of late that it should be left alone."""
        breaker = self.terms.breaker
        if breaker is None:
            return False
        self.forget()
        tried = sum(each[1] for each in self.recent)
        failed = sum(each[2] for each in self.recent)
        return tried >= breaker.calls and failed >= breaker.share * tried

    def forget(self) -> None:
        """What was before the window that counts."""
        since = time.monotonic() - (self.terms.breaker.window if self.terms.breaker else 0.0)
        while self.recent and self.recent[0][0] < since:
            self.recent.popleft()

    def clear(self) -> list[Claim]:
        """What waits here, to be given back."""
        given = list(self.waiting)
        self.waiting.clear()
        return given

    def _calls_at_once(self) -> int:
        """One until the first answer, and while it is on probation."""
        return 1 if self.pace is None or self.probing else self.terms.concurrency
