"""Claims for handlers with a limit.

One thread serves them, which exists only where there is such a handler. They are left out of the claims of the loop, so
that deliveries which must wait take no room from other handlers. The rate is a token bucket in the database that all
workers share, as for a destination. The concurrency is that of one worker.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter

from django.db import DatabaseError, InterfaceError, transaction

from duebox import clock
from duebox.events.subscribers import Limit
from duebox.store import destinations
from duebox.store.deliveries import Claim, Stream, claim, seconds_to_next
from duebox.store.destinations import Bucket
from duebox.worker.background_threads import BackgroundThread
from duebox.worker.claimer import BusyStreams, NotifyMode
from duebox.worker.connections import close_connections, own_connection, replace_connections
from duebox.worker.handler_pool import HandlerPool
from duebox.worker.resources import Resources
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")


class Limited:
    """One handler with a limit: the names under which its deliveries are stored, and the deliveries that are
    claimed."""

    def __init__(self, limit: Limit, threads: int) -> None:
        self.names: list[str] = []
        self.held: set[int] = set()
        self.look_at = 0.0
        self.bucket = Bucket(limit.rate, limit.bucket) if limit.rate else None
        self.most = limit.concurrency or max(threads, math.ceil((limit.rate or 0.0) * TUNABLES.tokens_ahead_seconds))

    def room(self) -> int:
        return self.most - len(self.held)


def limited_handlers_of(
    resources: Resources, pool: HandlerPool, mode: NotifyMode, threads: int
) -> LimitedHandlers | None:
    """For the handlers of a worker that have a limit; None where there are none."""
    found: dict[str, Limited] = {}
    for name, each in pool.subscribers.items():
        if each.limit is not None:
            found.setdefault(each.name, Limited(each.limit, threads)).names.append(name)
    return LimitedHandlers(resources, pool, mode, found) if found else None


class LimitedHandlers(BackgroundThread):
    name = "limits"

    def __init__(
        self, resources: Resources, pool: HandlerPool, mode: NotifyMode, limited_handlers: dict[str, Limited]
    ) -> None:
        super().__init__()
        self._resources = resources
        self._using = resources.using
        self._lease = resources.lease
        self._wake = resources.wakeup.limited_handlers
        self._pool = pool
        self._mode = mode
        self._limited = limited_handlers
        self._by_name = {name: each for each in limited_handlers.values() for name in each.names}
        self._busy_streams = BusyStreams(resources.using)
        self._has_buckets = False
        self._errors = 0
        self._idle_rounds = 0
        """How often it has looked at all of them and found nothing to do."""
        self._asked: tuple[int, int] | None = None

    def stop(self) -> None:
        super().stop()
        self._wake.set()

    def settled_down(self) -> bool:
        """Whether nothing was claimed, here or by the loop, since this was asked first. Two rounds must have passed,
        since one may have begun before."""
        taken = self._pool.inbox.total
        if self._asked is None or self._asked[0] != taken:
            self._asked = (taken, self._idle_rounds)
        elif self._idle_rounds >= self._asked[1] + 2 and not self._pool.busy():
            return True
        self._wake.set()
        return False

    def run(self) -> None:
        with own_connection(self._using, self._resources.watchdog, "limits", engine=True):
            while not self.stopping.is_set():
                self._wake.wait(self._round())
                self._wake.clear()

    def _round(self) -> float:
        """Claim once; returns how long to sleep. After an error it is not known what was claimed, so the lease ends."""
        lease = self._lease.id
        try:
            if not lease:
                return TUNABLES.poll_without_notify_seconds
            with limited():
                replace_connections()
                delay = self._claim(lease)
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            self._lease.abandon(f"limited handlers could not be served: {str(error).strip()}", lease)
            delay = self._after_error()
        except Exception:
            logger.exception("unexpected error while claiming for limited handlers; it goes on")
            self._lease.abandon("an unexpected error", lease)
            delay = self._after_error()
        return delay

    def _after_error(self) -> float:
        close_connections()
        self._errors += 1
        return TUNABLES.retry_waits[min(self._errors, len(TUNABLES.retry_waits)) - 1]

    def _claim(self, lease: int) -> float:
        for each in self._pool.inbox.take_limited_done():
            self._by_name[each.subscriber].held.discard(each.id)
        now = time.monotonic()
        rooms = {name: each.room() for name, each in self._limited.items() if each.room() > 0 and now >= each.look_at}
        if not rooms:
            return self._until_room()
        claims, waiting = self._take_allowed(lease, rooms)
        found = 0
        for name, some in claims.items():
            found += len(some)
            self._limited[name].held.update(each.id for each in some)
            self._pool.inbox.put(some)
        if waiting or self._busy_streams:
            return 0.0  # there may be something else behind the deliveries that wait
        if not found and len(claims) == len(self._limited):
            self._idle_rounds += 1
            if self._asked is not None:
                self._resources.wakeup.thread_is_free()  # the loop waits until all is done
        return self._until_next(found)

    def _take_allowed(self, lease: int, rooms: dict[str, int]) -> tuple[dict[str, list[Claim]], Counter[Stream]]:
        """A token bucket is locked while its tokens become claims, so that all workers together never take more than
        there are. One that another worker has locked is tried again soon."""
        using, allowed = self._using, dict(rooms)
        metered = {name: bucket for name in rooms if (bucket := self._limited[name].bucket)}
        if metered and not self._has_buckets:
            destinations.create_buckets(
                using, {name: each.bucket for name, each in self._limited.items() if each.bucket}
            )
            self._has_buckets = True
        waiting: Counter[Stream] = Counter()
        with transaction.atomic(using=using):
            if metered:
                tokens = destinations.lock_buckets(using, metered)
                allowed.update({name: min(rooms[name], int(tokens.tokens.get(name, 0.0))) for name in metered})
            claims = {name: self._take(name, lease, many, waiting) for name, many in allowed.items() if many > 0}
            if metered:
                spent = {name: len(some) for name, some in claims.items() if some and name in metered}
                destinations.spend_tokens(using, tokens, spent)
        for name, bucket in metered.items():
            if len(claims.get(name, ())) == allowed[name]:  # there may be more, or there was no token
                wait = max(
                    TUNABLES.shortest_wait_for_token_seconds,
                    min(TUNABLES.longest_wait_for_token_seconds, 1 / bucket.rate),
                )
                self._limited[name].look_at = time.monotonic() + wait
        room_of = {stored: many for name, many in allowed.items() for stored in self._limited[name].names}
        self._busy_streams.see(waiting, room_of)
        return claims, waiting

    def _take(self, name: str, lease: int, many: int, waiting: Counter[Stream]) -> list[Claim]:
        names, past = self._limited[name].names, self._busy_streams.streams
        claims, behind = claim(self._using, lease, names, many, past=past)
        waiting.update(behind)
        return claims

    def _until_next(self, found: int) -> float:
        """A handler that ends, or a new event, ends the sleep sooner."""
        longest = self._longest_sleep()
        if found:
            longest = min(longest, TUNABLES.poll_without_notify_seconds)  # the next round asks what is due later
        elif longest > TUNABLES.poll_without_notify_seconds:
            seconds = seconds_to_next(self._using, list(self._by_name)).delivery
            longest = longest if seconds is None else min(longest, clock.real_seconds(seconds))
        return min(longest, self._until_room())

    def _until_room(self) -> float:
        """Until the rate of a handler may allow more."""
        now = time.monotonic()
        waits = [each.look_at - now for each in self._limited.values() if each.look_at > now and each.room() > 0]
        return max(0.0, min([self._longest_sleep(), *waits]))

    def _longest_sleep(self) -> float:
        shortest = min(self._mode.poll_seconds, TUNABLES.poll_without_notify_seconds)
        return shortest if self._asked is not None else self._mode.longest_sleep()
