"""Claim deliveries for destinations: which have something to deliver, and how much can be sent soon."""

from __future__ import annotations

import time
from collections import Counter

from duebox.store import destinations
from duebox.store.deliveries import Claim
from duebox.store.destinations import Ready
from duebox.worker.claimer import BusyStreams
from duebox.worker.senders.destination_queue import QUICK, DestinationQueues
from duebox.worker.settle import Settler
from duebox.worker.tunables import TUNABLES


class ReadyDestinations:
    """The destinations that have something to deliver.

    The database is asked in each round, unless there are many of them: then one answer serves several rounds. For
    20,000 endpoints with something to deliver the query alone takes a quarter of a second.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._found: list[Ready] = []
        self._next = 0
        self._asked_at = 0.0

    def names(self) -> list[Ready]:
        """The next slice of them."""
        if not self.more:
            self._asked_at = time.monotonic()
            self._found, self._next = destinations.ready(self._using), 0
        some = self._found[self._next : self._next + TUNABLES.destination_slice]
        self._next += TUNABLES.destination_slice
        passed = time.monotonic() - self._asked_at
        return [_after(passed, each) for each in some] if self._next > TUNABLES.destination_slice else some

    @property
    def more(self) -> bool:
        """Whether some of the last answer were not served yet."""
        return self._next < len(self._found)

    def all_names(self) -> set[str]:
        return {each.name for each in self._found}


def _after(seconds: float, each: Ready) -> Ready:
    opens_in = None if each.opens_in is None else each.opens_in - seconds
    return each._replace(due_in=each.due_in - seconds, opens_in=opens_in)


class DestinationClaimer:
    def __init__(self, using: str, settler: Settler, queues: DestinationQueues) -> None:
        self._using = using
        self._settler = settler
        self._queues = queues
        self._busy_streams = BusyStreams(using)

    def claim(self, names: list[Ready], lease: int) -> list[Claim]:
        due = [each for each in names if each.due_in <= 0 and not each.paused]
        many = self._rooms([each for each in due if each.opens_in is None])
        probed = self._probed([each.name for each in due if each.opens_in is not None and each.opens_in <= 0])
        claims = self._take({**many, **dict.fromkeys(probed, TUNABLES.probe_claims)}, lease)
        return self._one_for_each_probe(claims, probed) if probed else claims

    def _rooms(self, due: list[Ready]) -> dict[str, int]:
        rooms: dict[str, int] = {}
        due = self._callable_soon(due)
        self._queues.prepare([each.name for each in due])
        for each in due:
            queue = self._queues.open(each.name)
            if queue is None or (queue.bucket and time.monotonic() < queue.look_at):
                continue
            queue.failing_since = each.failing_since
            if (room := queue.room()) > 0:
                rooms[each.name] = room
        return rooms

    def _callable_soon(self, due: list[Ready]) -> list[Ready]:
        """All that are quick. Of those that are slow, or have not answered yet, no more than can be called soon:
        another worker may call the others."""
        held = self._queues.waiting()
        chosen = []
        for each in due:
            kind = self._queues.kind(each.name)
            if kind == QUICK or held[kind] < TUNABLES.slow_destinations_at_most:
                held[kind] += 1
                chosen.append(each)
        return chosen

    def _probed(self, names: list[str]) -> set[str]:
        """The ones whose pause is over and that this worker, and no other, tries with one event."""
        ready = [name for name in names if self._queues.open(name) is not None]
        won = destinations.start_probes(self._using, ready, TUNABLES.probe_seconds) if ready else set()
        for name in won:
            self._queues[name].probing = True
        return won

    def _take(self, many: dict[str, int], lease: int) -> list[Claim]:
        using = self._using
        metered = {name: bucket for name in many if (bucket := self._queues[name].bucket)}
        plain = {name: count for name, count in many.items() if name not in metered}
        claims: list[Claim] = []
        waiting: Counter[tuple[str, str]] = Counter()
        past = self._busy_streams.streams
        if plain:
            claims, waiting = destinations.claim(using, lease, plain, past=past)
        if metered:
            more = destinations.claim_within_rates(
                using, lease, {name: many[name] for name in metered}, metered, past=past
            )
            claims, waiting = claims + more.claims, waiting + more.waiting
            for name, bucket in metered.items():
                self._queues[name].look_at = time.monotonic() + max(
                    TUNABLES.shortest_wait_for_rate_seconds, 1 / bucket.rate
                )
        self._busy_streams.see(waiting, many)
        return claims

    def _one_for_each_probe(self, claims: list[Claim], probed: set[str]) -> list[Claim]:
        chosen: list[Claim] = []
        spare: list[Claim] = []
        tried: set[str] = set()
        for each in claims:
            (spare if each.subscriber in tried else chosen).append(each)
            tried |= {each.subscriber} & probed
        if spare:
            self._settler.release(spare, "one is tried first")
        for name in probed - tried:
            self._queues[name].probing = False
            destinations.delay_probe(self._using, name, TUNABLES.probe_again_seconds)
        return chosen
