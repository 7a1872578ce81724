"""The worker's lease: taken at the start, renewed by a heartbeat, abandoned as soon as it may be lost. The heartbeat
also reads the database's clock.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

from django.db import connections

from duebox import clock
from duebox.context import metrics
from duebox.dead_letters import notify
from duebox.store import leases
from duebox.store.run_sql import database_time
from duebox.worker.connections import own_connection
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import Watchdog, limited


class Clock(clock.DatabaseClock):
    """The clock of the database that this worker serves."""

    __slots__ = ()

    def reading(self) -> float:
        """Like `now`, but on the clock that a test or a preview has put in its place; not for measuring durations."""
        moved = clock.override()
        return self.now() if moved is None else moved.timestamp()

    def set(self, database_now: float, asked_at: float) -> None:
        super().set(database_now, asked_at)
        clock.database.set(database_now, asked_at)


logger = logging.getLogger("duebox.worker")


class Lease:
    """`id` is the fencing token; it changes when the lease was lost. Past `safe_until` nothing may be started."""

    def __init__(
        self,
        using: str,
        seconds: float,
        rescue_limit: int,
        clock: Clock,
        *,
        probe: bool,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.using = using
        self.seconds = seconds
        self.beat_seconds = seconds / TUNABLES.beats_per_lease
        self._answer_seconds = max(TUNABLES.shortest_heartbeat_seconds, seconds * TUNABLES.heartbeat_answer_share)
        self._watchdog = watchdog or Watchdog()
        self.id = 0
        self.safe_until = 0.0
        self._abandoned_until = 0.0
        """Before this time no other worker takes the deliveries of the lease that was abandoned last: it expires in the
        database then, or a moment later."""
        self.beats = 0
        self.failures = 0
        """How many heartbeats in a row got no answer."""
        self.hurry = threading.Event()
        self._rescue_limit = rescue_limit
        self._clock = clock
        self._probe = probe
        self._stopping = False
        self._ended = False
        self._ending = threading.Lock()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="duebox-lease", daemon=True)

    def start(self) -> None:
        if not self.id:
            self.take()
        self._thread.start()

    def owns(self, lease: int) -> bool:
        if not lease or lease != self.id:
            return False
        if time.perf_counter() < self.safe_until:
            return True
        self.abandon_if_too_old()
        return False

    def abandon_if_too_old(self) -> None:
        """A heartbeat that still arrives would keep deliveries claimed that this worker does not start; so the lease
        must end."""
        if self.id and time.perf_counter() >= self.safe_until:
            self.abandon("no heartbeat for as long as the lease lasts")

    def is_over(self, lease: int) -> bool:
        """Whether another worker may have taken the deliveries that were claimed under this lease: it is not the
        current one, and the last one that was abandoned has expired."""
        return lease != self.id and time.perf_counter() >= self._abandoned_until

    def take(self) -> None:
        asked_at = time.perf_counter()
        with limited(self._answer_seconds):
            lease = leases.take(self.using, self.seconds)
        with self._ending:
            if not self._ended:
                self.safe_until = asked_at + self.seconds
                self.id = lease
        if self._ended:
            leases.drop(self.using, lease)  # no other thread would
        else:
            self._read_clock()

    def abandon(self, reason: str, lease: int | None = None) -> None:
        """Stop using the current lease; with `lease`, only if that is still the current one. The row in the database is
        left to expire, after which other workers rescue the deliveries that were claimed under it. The heartbeat takes
        a new lease."""
        if not self.id or lease not in (None, self.id):
            return
        fields = {"lease": self.id, "reason": reason}
        logger.warning(
            "lease lost: lease=%s reason=%s; its deliveries are left to other workers", *fields.values(), extra=fields
        )
        metrics.LEASE_LOSSES.add()
        self._abandoned_until = self.safe_until
        self.safe_until = 0.0
        self.id = 0
        self.hurry.set()

    def stop(self) -> None:
        """End the heartbeat and delete the lease."""
        self._stopping = True
        self.hurry.set()
        if self._thread.is_alive():
            self._thread.join(self.beat_seconds)
        with self._ending:
            self._ended = True
            lease, self.id, self.safe_until = self.id, 0, 0.0  # a thread that was left behind starts nothing more
        if lease:
            with limited(self._answer_seconds):
                leases.drop(self.using, lease)

    def _beat_until_stopped(self) -> None:
        with own_connection(self.using, self._watchdog, "heartbeat", engine=True):
            while not self._stopping:
                try:
                    self._beat()
                    self.failures = 0
                except Exception as error:  # without a heartbeat the worker would do nothing any more
                    self.failures += 1
                    connections[self.using].close()
                    fields = {"lease": self.id, "error": str(error).strip()}
                    logger.warning("heartbeat failed: lease=%s error=%s", *fields.values(), extra=fields)
                    if self.id and time.perf_counter() > self.safe_until:
                        self.abandon("no heartbeat for as long as the lease lasts")
                self.hurry.wait(self.beat_seconds * (TUNABLES.failed_beat_share if self.failures == 1 else 1))
                self.hurry.clear()

    def _beat(self) -> None:
        if not self.id:
            self.take()
        if self._ended:
            return
        asked_at = time.perf_counter()
        with limited(self._answer_seconds):
            renewed = leases.renew(self.using, self.id, self.seconds, probe=self._probe)
        if renewed:
            self.safe_until = asked_at + self.seconds
            self._read_clock()
        else:
            self.abandon("the heartbeat came too late")
            self.take()
        self.beats += 1
        with limited():
            rescue(self.using, self._rescue_limit, always=self.beats % TUNABLES.beats_per_full_rescue == 0)
        with limited(self._answer_seconds):
            self._watchdog.close_silent(self.using, self.seconds)

    def _read_clock(self) -> None:
        asked_at = time.perf_counter()
        with limited(self._answer_seconds):
            self._clock.set(database_time(self.using), asked_at)


def rescue(using: str, limit: int, *, always: bool = False) -> int:
    """Free the deliveries of lost workers; with `always` also look for those whose lease has no row any more."""
    count = leases.rescue(using, limit, always=always, report_dead=partial(notify.report_crashing, using))
    metrics.RESCUED.add(count)
    return count
