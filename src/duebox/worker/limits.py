"""Handlers with a limit: claimed apart from the others, and only as many as may run.

One thread, which exists only where a handler has a limit. The names of these handlers are left out of the claims of the
worker's loop, so that a crowd which must wait takes no room from other handlers. The rate is kept in a bucket of tokens
in the database that all workers share, as that of a destination is. The concurrency is that of one worker.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from django.db import DatabaseError, InterfaceError, transaction

from duebox import clock
from duebox.store import gates
from duebox.store.crowds import Stream
from duebox.store.deliveries import Claim, claim, seconds_to_next
from duebox.store.gates import Bucket
from duebox.subscribers import Limit
from duebox.worker.crew import Crew
from duebox.worker.crowds import Crowds
from duebox.worker.patience import WAITS
from duebox.worker.sessions import own_connection
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")

POLL_SECONDS = 0.05
"""How often to look while the worker is not told of new events."""
SHORTEST_WAIT_SECONDS = 0.02
LONGEST_WAIT_SECONDS = 1.0
SURE_SECONDS = 1.0
"""After the worker began to listen, transactions that began before may still commit without a NOTIFY, for so long."""
AHEAD_SECONDS = 0.1
"""Without a limit on the concurrency, so much of the rate is claimed at once at most."""


class Limited:
    """One handler with a limit: the names under which its deliveries are stored, and those of them that it has."""

    def __init__(self, limit: Limit, threads: int) -> None:
        self.names: list[str] = []
        self.held: set[int] = set()
        self.look_at = 0.0
        self.bucket = Bucket(limit.rate, limit.bucket) if limit.rate else None
        self.most = limit.concurrency or max(threads, math.ceil((limit.rate or 0.0) * AHEAD_SECONDS))

    def room(self) -> int:
        return self.most - len(self.held)


def limits_of(crew: Crew, threads: int, poll: float, hears: Callable[[], bool]) -> Limits | None:
    """For the handlers of a worker that have a limit; None where there are none."""
    limited: dict[str, Limited] = {}
    for name, each in crew.subscribers.items():
        if each.limit is not None:
            limited.setdefault(each.name, Limited(each.limit, threads)).names.append(name)
    return Limits(crew, limited, poll, hears) if limited else None


class Limits:
    def __init__(self, crew: Crew, limited: dict[str, Limited], poll: float, hears: Callable[[], bool]) -> None:
        self._crew = crew
        self._limited = limited
        self._by_name = {name: each for each in limited.values() for name in each.names}
        self._poll_seconds = poll
        self._hears = hears
        self._heard_since = float("inf")
        self._crowds = Crowds(crew.using)
        self._wake = threading.Event()
        self._stopping = False
        self._has_buckets = False
        self._errors = 0
        self._idle_rounds = 0
        """How often it has looked at all of them and found nothing to do."""
        self._asked: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="duebox-limits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Nothing more is claimed."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(WAITS[-1])

    def done(self, claims: Iterable[Claim]) -> None:
        """A handler thread is through with these, whatever came of them."""
        for each in claims:
            limited = self._by_name.get(each.subscriber)
            if limited is not None and each.id in limited.held:
                limited.held.discard(each.id)
                self._wake.set()

    def settled_down(self) -> bool:
        """Whether nothing was claimed, here or elsewhere, since this was asked first: two looks later, since one may
        have begun before."""
        taken = self._crew.taken()
        if self._asked is None or self._asked[0] != taken:
            self._asked = (taken, self._idle_rounds)
        elif self._idle_rounds >= self._asked[1] + 2 and not self._crew.busy():
            return True
        self._wake.set()
        return False

    def _run(self) -> None:
        crew = self._crew
        with own_connection(crew.using, crew.watchdog, "limits", engine=True):
            while not self._stopping:
                self._wake.wait(self._round())
                self._wake.clear()

    def _round(self) -> float:
        """Claim once; returns how long to sleep. After an error it is not known what was claimed, so the lease ends."""
        lease = self._crew.lease.id
        try:
            if not lease:
                return POLL_SECONDS
            with limited():
                tidy_connections()
                delay = self._claim(lease)
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            self._crew.lease.abandon(f"limited handlers could not be served: {str(error).strip()}", lease)
            delay = self._after_error()
        except Exception:
            logger.exception("unexpected error while claiming for limited handlers; it goes on")
            self._crew.lease.abandon("an unexpected error", lease)
            delay = self._after_error()
        return delay

    def _after_error(self) -> float:
        close_connections()
        self._errors += 1
        return WAITS[min(self._errors, len(WAITS)) - 1]

    def _claim(self, lease: int) -> float:
        now = time.monotonic()
        rooms = {name: each.room() for name, each in self._limited.items() if each.room() > 0 and now >= each.look_at}
        if not rooms:
            return self._until_room()
        claims, parked = self._take_allowed(lease, rooms)
        found = 0
        for name, some in claims.items():
            found += len(some)
            self._limited[name].held.update(each.id for each in some)
            self._crew.put(some)
        if parked or self._crowds:
            return 0.0  # what stood behind others was parked; something else may come after it
        if not found and len(claims) == len(self._limited):
            self._idle_rounds += 1
            if self._asked is not None:
                self._crew.thread_is_free()  # the loop waits until all is done
        return self._until_next(found)

    def _take_allowed(self, lease: int, rooms: dict[str, int]) -> tuple[dict[str, list[Claim]], Counter[Stream]]:
        """A bucket is held while its tokens become claims, so that all workers together never take more than there
        are. One that another worker holds at this moment is looked at again soon."""
        using, allowed = self._crew.using, dict(rooms)
        metered = {name: bucket for name in rooms if (bucket := self._limited[name].bucket)}
        if metered and not self._has_buckets:
            gates.make(using, {name: each.bucket for name, each in self._limited.items() if each.bucket})
            self._has_buckets = True
        parked: Counter[Stream] = Counter()
        with transaction.atomic(using=using):
            if metered:
                tokens = gates.hold(using, metered)
                allowed.update({name: min(rooms[name], int(tokens.tokens.get(name, 0.0))) for name in metered})
            claims = {name: self._take(name, lease, many, parked) for name, many in allowed.items() if many > 0}
            if metered:
                spent = {name: len(some) for name, some in claims.items() if some and name in metered}
                gates.spend(using, tokens, spent)
        for name, bucket in metered.items():
            if len(claims.get(name, ())) == allowed[name]:  # there may be more, or there was no token
                wait = max(SHORTEST_WAIT_SECONDS, min(LONGEST_WAIT_SECONDS, 1 / bucket.rate))
                self._limited[name].look_at = time.monotonic() + wait
        room_of = {stored: many for name, many in allowed.items() for stored in self._limited[name].names}
        self._crowds.see(parked, room_of.__getitem__)
        return claims, parked

    def _take(self, name: str, lease: int, many: int, parked: Counter[Stream]) -> list[Claim]:
        names, past = self._limited[name].names, self._crowds.streams
        claims, behind = claim(self._crew.using, lease, names, many, past=past)
        parked.update(behind)
        return claims

    def _until_next(self, found: int) -> float:
        """A handler thread that is free again, or a new event, ends the sleep."""
        longest = self._longest_sleep()
        if found:
            longest = min(longest, POLL_SECONDS)  # then it is asked what is due later
        elif longest > POLL_SECONDS:
            seconds = seconds_to_next(self._crew.using, list(self._by_name)).delivery
            longest = longest if seconds is None else min(longest, clock.real_seconds(seconds))
        return min(longest, self._until_room())

    def _until_room(self) -> float:
        """Until the rate of a handler may allow more."""
        now = time.monotonic()
        waits = [each.look_at - now for each in self._limited.values() if each.look_at > now and each.room() > 0]
        return max(0.0, min([self._longest_sleep(), *waits]))

    def _longest_sleep(self) -> float:
        if not self._hears():
            self._heard_since = float("inf")
        elif self._heard_since == float("inf"):
            self._heard_since = time.monotonic()
        sure = self._asked is None and time.monotonic() - self._heard_since > SURE_SECONDS
        return self._poll_seconds if sure else min(self._poll_seconds, POLL_SECONDS)
