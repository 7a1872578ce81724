"""The worker's own lease: taken at start, kept by a heartbeat, given up the moment it cannot be trusted."""

from __future__ import annotations

import logging
import threading
import time

from django.db import connections

from duebox.store import leases
from duebox.store.database_clock import database_time
from duebox.upkeep import forget_receipts
from duebox.worker.clock import Clock
from duebox.worker.sessions import own_connection
from duebox.worker.settling import rescue
from duebox.worker.watchdog import Watchdog, limited

logger = logging.getLogger("duebox.worker")

BEATS_PER_LEASE = 4
BEATS_PER_STRAY_HUNT = 12
FORGET_SECONDS = 3600.0
SHORTEST_ANSWER_SECONDS = 1.0


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
        self.beat_seconds = seconds / BEATS_PER_LEASE
        # So that after a connection that gave no answer there is time for another one.
        self._answer_seconds = max(SHORTEST_ANSWER_SECONDS, seconds / 3)
        self._watchdog = watchdog or Watchdog()
        self.id = 0
        self.safe_until = 0.0
        self._over_at = 0.0
        """When the lease that was abandoned last has run out. Until then nobody else takes what it holds."""
        self.beats = 0
        self.hurry = threading.Event()
        self._rescue_limit = rescue_limit
        self._clock = clock
        self._probe = probe
        self._forget_at = 0.0
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
        """A heartbeat that still gets through would keep alive what is not started now; so the lease must end."""
        if self.id and time.perf_counter() >= self.safe_until:
            self.abandon("no heartbeat for as long as the lease lasts")

    def is_over(self, lease: int) -> bool:
        """Whether another worker may hold by now what was claimed under this lease."""
        return lease != self.id and time.perf_counter() >= self._over_at

    def take(self) -> None:
        asked_at = time.perf_counter()
        with limited(self._answer_seconds):
            lease = leases.take(self.using, self.seconds)
        with self._ending:
            if not self._ended:
                self.safe_until = asked_at + self.seconds
                self.id = lease
        if self._ended:
            leases.drop(self.using, lease)  # nobody else would
        else:
            self._read_clock()

    def abandon(self, reason: str, lease: int | None = None) -> None:
        """Stop trusting the lease, or just this one; the heartbeat takes a new one, and what hung on the old one is
        rescued."""
        if not self.id or lease not in (None, self.id):
            return
        logger.warning("lease lost: lease=%s reason=%s; its deliveries are left to other workers", self.id, reason)
        self._over_at = self.safe_until
        self.safe_until = 0.0
        self.id = 0
        self.hurry.set()

    def stop(self) -> None:
        """Ends the heartbeat and gives the lease back."""
        self._stopping = True
        self.hurry.set()
        if self._thread.is_alive():
            self._thread.join(self.beat_seconds)
        with self._ending:
            self._ended = True
            lease, self.id, self.safe_until = self.id, 0, 0.0  # a thread that was left behind begins nothing more
        if lease:
            with limited(self._answer_seconds):
                leases.drop(self.using, lease)

    def _beat_until_stopped(self) -> None:
        with own_connection(self.using, self._watchdog, "heartbeat", engine=True):
            failures = 0
            while not self._stopping:
                try:
                    self._beat()
                    failures = 0
                except Exception as error:  # whatever it is, a worker without a heartbeat would be a zombie
                    failures += 1
                    connections[self.using].close()
                    logger.warning("heartbeat failed: lease=%s error=%s", self.id, str(error).strip())
                    if self.id and time.perf_counter() > self.safe_until:
                        self.abandon("no heartbeat for as long as the lease lasts")
                # After the first failure soon: it may have been the connection alone, and the lease can still be kept.
                self.hurry.wait(self.beat_seconds / (4 if failures == 1 else 1))
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
            rescue(self.using, self._rescue_limit, always=self.beats % BEATS_PER_STRAY_HUNT == 0)
            if time.monotonic() >= self._forget_at:
                self._forget_at = time.monotonic() + (0.0 if forget_receipts(self.using) else FORGET_SECONDS)
        with limited(self._answer_seconds):
            self._watchdog.close_silent(self.using, self.seconds)

    def _read_clock(self) -> None:
        asked_at = time.perf_counter()
        with limited(self._answer_seconds):
            self._clock.set(database_time(self.using), asked_at)
