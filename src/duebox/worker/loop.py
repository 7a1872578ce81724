"""The worker: claim what is due, hand it to the runner, sleep until there is more."""

from __future__ import annotations

import logging
import threading
import time

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from duebox import clock as time_source
from duebox.conf import conf
from duebox.firing import BATCH, fire_due
from duebox.redis_tier.tier import tier_of
from duebox.store import leases
from duebox.store.deliveries import claim, seconds_to_next
from duebox.store.schedules import NEAR_SECONDS
from duebox.subscribers import OUTSIDE, matching
from duebox.upkeep import prepare_upkeep
from duebox.worker.ahead import SECONDS as AHEAD_SECONDS
from duebox.worker.ahead import Ahead
from duebox.worker.bell import Bell
from duebox.worker.clock import Clock
from duebox.worker.crew import Crew
from duebox.worker.crowds import Crowds
from duebox.worker.ending import Ending
from duebox.worker.floor import Floor
from duebox.worker.lease import Lease
from duebox.worker.listener import Listener
from duebox.worker.outside import outside_of
from duebox.worker.patience import WAITS
from duebox.worker.settling import rescue
from duebox.worker.tidy import tidy_connections

logger = logging.getLogger("duebox.worker")

FULL_CLAIMS_UNTIL_AWAKE = 20
AFTERGLOW_SECONDS = 1.0
AFTERGLOW_POLL_SECONDS = 0.05
PREPARE_SECONDS = 0.05
# While there is always more to claim, look this often for schedules that are due.
BUSY_FIRE_SECONDS = 0.05
HELD_SECONDS = 0.02
# How many to fire in a row before deliveries have their turn.
CROWD = 10 * BATCH
LONGEST_SLEEP_SECONDS = NEAR_SECONDS / 2


class Worker:
    """One process: a lease, a listener, handler threads, and this loop, which only claims and sleeps."""

    def __init__(self, *, using: str | None = None, threads: int | None = None, batch: int | None = None,
                 poll: float | None = None, only: tuple[str, ...] = (), until_idle: bool = False,
                 lives_on: bool = False) -> None:  # fmt: skip
        settings = conf()
        self.using = using or settings.DATABASE
        self.subscribers = matching(only)
        self._names = [name for name in self.subscribers if not name.startswith(OUTSIDE)]
        self._until_idle = until_idle
        self._poll_seconds = poll or settings.POLL_SECONDS
        self._shutdown_seconds = settings.SHUTDOWN_SECONDS
        self._bell = Bell()
        self._stopping = False
        clock = Clock()
        self.lease = Lease(self.using, settings.LEASE_SECONDS, settings.RESCUE_LIMIT, clock, probe=settings.LISTEN)
        self.listener = Listener(self.lease, self.wake) if settings.LISTEN and not until_idle else None
        redis = None if until_idle else tier_of(self.wake, self.using)
        self._ears = [each for each in (self.listener, redis) if each]
        self._floor = Floor()
        self._crowds = Crowds(self.using)
        self.crew = Crew(
            self.using,
            self.lease,
            clock,
            self.subscribers,
            threads=threads or settings.THREADS,
            batch=batch or settings.BATCH_SIZE,
            rescue_limit=settings.RESCUE_LIMIT,
            wake=self._bell.ring,
            rewind=self._floor.rewind,
        )
        self.outside = outside_of(self.crew, self._poll_seconds, lambda: self._told_mode[1])
        self._ending = Ending(self.lease, self.crew, self.outside, lives_on=lives_on)
        self._upkeep = threading.Thread(target=self._keep_up, name="duebox-upkeep", daemon=True)
        self._ahead = Ahead(self.using, clock)
        self._fire_at = 0.0
        self._looked_at = 0.0
        self._claim_at = 0.0
        self._full_claims = 0
        self._told_mode = ("poll", False, 0)
        self._afterglow_until = 0.0
        self._errors = 0

    def run(self) -> None:
        """Works until `stop()`, or with `until_idle` until nothing is due."""
        self._take_lease()
        if not self.lease.id:
            return  # stopped before the database was there
        self.lease.start()
        self.crew.start()
        if self.outside:
            self.outside.start()
        self._upkeep.start()
        for each in self._ears:
            each.start()
        try:
            while not self._stopping:
                if self._bell.wait(self._poll_safely()):
                    self._claim_at = 0.0
        finally:
            self._shut_down()

    def stop(self) -> None:
        """Safe to call from a signal handler or another thread."""
        self._stopping = True
        self._bell.ring()

    def wake(self) -> None:
        """There is something new to look at."""
        self._bell.ring()
        if self.outside:
            self.outside.wake()

    def _take_lease(self) -> None:
        """A worker that starts before its database waits for it; `until_idle` gives up: the next run tries again."""
        while not self._stopping:
            try:
                self.lease.take()
                # Where only `once` runs, from cron, nobody else looks for strays.
                rescue(self.using, conf().RESCUE_LIMIT, always=True)
            except OperationalError as error:
                if self._until_idle and self._errors >= len(WAITS):
                    raise
                self._bell.wait(self._after_error(error))
            else:
                return

    def _keep_up(self) -> None:
        """Beside the loop: after an update of the zone database it may have a million schedules to look at."""
        try:
            prepare_upkeep(self.using)
        except Exception:
            logger.exception("upkeep failed; the next worker that starts tries again")
        finally:
            connections[self.using].close()
            self._bell.ring()

    def _shut_down(self) -> None:
        for each in self._ears:
            each.stop()
        self._ending.shut_down(time.monotonic() + self._shutdown_seconds)

    def _poll_safely(self) -> float:
        try:
            tidy_connections()
            delay = self._poll()
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            # A claim may have been committed although its answer was lost; nobody would run what it took.
            self.lease.abandon(f"a claim failed: {str(error).strip()}")
            delay = self._after_error(error)
        return delay

    def _after_error(self, error: Exception) -> float:
        connections[self.using].close()
        delay = WAITS[self._errors] if self._errors < len(WAITS) else max(self._poll_seconds, WAITS[-1])
        self._errors += 1
        logger.warning("database error, next try in %g s: %s", delay, str(error).strip())
        return delay

    def _poll(self) -> float:
        """Fire what is due and claim once; returns how long to sleep."""
        prepared = self._fire_prepared()
        if prepared and time.monotonic() < min(self._claim_at, self._fire_at):
            return self._until_next_prepared()
        fired = self._fire() or prepared
        # Asked before the claim: a handler that ends after it may have emitted more.
        was_idle = not self.crew.busy()
        room = self.crew.room()
        if not self._names and not (fired or self._upkeep.is_alive()):
            self._stop_if_idle()
        if not self.lease.id or room <= 0 or not self._names:
            return 0.0 if fired else self._rest_without_claims()
        floor = self._floor.value
        past = self._crowds.streams
        claims, parked = claim(self.using, self.lease.id, self._names, room, floor=floor, past=past)
        self.crew.put(claims)
        full = len(claims) + parked.total() >= room
        self._floor.move(claims[-1].due if full and claims else None)
        if self._crowds.see(parked, lambda _: room):
            self._floor.rewind()
        if full or self._crowds:
            self._full_claims += 1
            self._keep_mode(asleep=self._full_claims < FULL_CLAIMS_UNTIL_AWAKE)
            return 0.0
        if floor and not claims:
            return 0.0  # something may lie below it
        if was_idle and not (fired or claims or parked or self._upkeep.is_alive()):
            self._stop_if_idle()
        return self._rest()

    def _stop_if_idle(self) -> None:
        """Nothing is left to do here; what goes outside may still be on its way, or cause more."""
        if self._until_idle and (self.outside is None or self.outside.settled_down()):
            self.stop()

    def _fire_prepared(self) -> bool:
        """The shortest way from a moment to its handler: one statement, and no claim."""
        if self._ahead.seconds() != 0.0 or not self.lease.id:
            return False
        claims, look_again = self._ahead.fire(self.lease.id, self._names, self.crew.room())
        self.crew.put(claims)
        if look_again:
            self._fire_at = 0.0
        return True

    def _until_next_prepared(self) -> float:
        seconds = self._ahead.seconds()
        until = min(self._claim_at, self._fire_at) - time.monotonic()
        return max(0.0, until if seconds is None else min(seconds, until))

    def _fire(self) -> int:
        """Schedules come first: a crowd of deliveries must not make them late."""
        if time.monotonic() < self._fire_at:
            return 0
        due = fired = fire_due(self.using).due
        while fired == BATCH and due < CROWD:
            fired = fire_due(self.using).due
            due += fired
        self._looked_at = time.monotonic() if fired < BATCH else 0.0
        self._fire_at = time.monotonic() + BUSY_FIRE_SECONDS if fired < BATCH else 0.0
        return due

    def _rest(self) -> float:
        """Nothing more is due: how long until something is?"""
        self._full_claims = 0
        if self._keep_mode(asleep=True):
            # Emitters that looked before this saw a busy worker and sent no NOTIFY; look after them.
            self._afterglow_until = time.monotonic() + AFTERGLOW_SECONDS
            return 0.0
        to_next = seconds_to_next(self.using, self._names)
        claim_in = self._poll_seconds
        if to_next.delivery is not None:
            claim_in = min(claim_in, time_source.real_seconds(to_next.delivery))
        if time.monotonic() < self._afterglow_until:
            claim_in = min(claim_in, AFTERGLOW_POLL_SECONDS)
        fire_in = self._until_fire(to_next.schedule)
        self._claim_at = time.monotonic() + claim_in
        return min(claim_in, fire_in)

    def _rest_without_claims(self) -> float:
        """All hands are busy, or there is nothing that this worker may claim; moments come all the same."""
        if not self._names:
            self._keep_mode(asleep=True)  # for the sake of destinations
        return min(self._poll_seconds, self._until_fire(seconds_to_next(self.using, self._names).schedule))

    def _until_fire(self, seconds: float | None) -> float:
        """How long to sleep as far as schedules go; prepares those that are near."""
        # Whoever stores a schedule for the next minute sends a NOTIFY; beyond that a worker must look by itself.
        longest = min(self._poll_seconds, LONGEST_SLEEP_SECONDS)
        soon = longest if seconds is None else time_source.real_seconds(seconds)
        if soon <= 0.0:
            # One that was due at the last look already is held by somebody: it is no use to hurry.
            held = -soon > time.monotonic() - self._looked_at
            self._fire_at = self._looked_at + HELD_SECONDS if held else 0.0
            return max(0.0, self._fire_at - time.monotonic())
        if soon < AHEAD_SECONDS:
            fire_in = self._ahead.look()
            prepared = self._ahead.seconds()
            wake_in = fire_in if prepared is None else min(prepared, fire_in)
        else:
            fire_in = min(soon, longest)
            wake_in = max(0.0, fire_in - PREPARE_SECONDS) if soon < longest else fire_in
        self._fire_at = time.monotonic() + fire_in
        return wake_in

    def _keep_mode(self, *, asleep: bool) -> bool:
        """Tell emitters whether a NOTIFY is worth sending. True when that changed from no to yes."""
        mode = self.listener.mode if self.listener else "poll"
        listening = asleep and mode == "listen"
        told = (mode, listening, self.lease.id)
        if told == self._told_mode:
            return False
        woken = listening and not self._told_mode[1]
        leases.set_mode(self.using, self.lease.id, mode=mode, listening=listening)
        self._told_mode = told
        return woken
