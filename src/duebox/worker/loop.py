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
from duebox.store.row_changes import CHANGES
from duebox.store.schedules import DUE_NOW, NEAR_SECONDS, SCHEDULES
from duebox.subscribers import OUTSIDE, matching
from duebox.upkeep import prepare_upkeep
from duebox.worker.ahead import BEFORE_SECONDS, Ahead
from duebox.worker.ahead import SECONDS as AHEAD_SECONDS
from duebox.worker.bell import Bell
from duebox.worker.clock import Clock
from duebox.worker.crew import Crew
from duebox.worker.crowds import Crowds
from duebox.worker.ending import Ending
from duebox.worker.floor import Floor
from duebox.worker.lease import Lease
from duebox.worker.limits import limits_of
from duebox.worker.listener import Listener
from duebox.worker.outside import outside_of
from duebox.worker.patience import WAITS
from duebox.worker.row_changes import RowChanges
from duebox.worker.sessions import own_connection
from duebox.worker.settling import rescue
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import Watch, Watchdog, limit, limited

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
# To ask what comes next, or to prepare it, takes 1 to 2 ms; it is put off while a prepared schedule is due sooner than
# this, but not for long.
GAP_SECONDS = 0.003
GAP_WITHIN_SECONDS = 0.1
HURRY_SECONDS = 0.05
UPKEEP_AGAIN_SECONDS = 60.0
# The heartbeat takes a new lease soon; look this often whether there is one.
NO_LEASE_SECONDS = 0.1
# Told to stop, it waits no longer than this for the answer to a statement.
STOP_SECONDS = 2.0


class Worker:
    """One process: a lease, a listener, handler threads, and this loop, which only claims and sleeps."""

    def __init__(self, *, using: str | None = None, threads: int | None = None, batch: int | None = None,
                 poll: float | None = None, only: tuple[str, ...] = (), until_idle: bool = False,
                 lives_on: bool = False) -> None:  # fmt: skip
        settings = conf()
        self.using = using or settings.DATABASE
        self.subscribers = matching(only)
        self._names = [
            name for name, each in self.subscribers.items() if not name.startswith(OUTSIDE) and each.limit is None
        ]
        self._until_idle = until_idle
        self._poll_seconds = poll or settings.POLL_SECONDS
        self._shutdown_seconds = settings.SHUTDOWN_SECONDS
        self._bell = Bell()
        self._stopping = False
        clock = Clock()
        self.watchdog = Watchdog()
        self._watch: Watch | None = None
        self.lease = Lease(
            self.using,
            settings.LEASE_SECONDS,
            settings.RESCUE_LIMIT,
            clock,
            probe=settings.LISTEN,
            watchdog=self.watchdog,
        )
        self.watchdog.checks.append(self.lease.abandon_if_too_old)
        listens = settings.LISTEN and not until_idle
        self.listener = Listener(self.lease, self.wake, self.watchdog) if listens else None
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
            wake=self._call,
            thread_is_free=self._thread_is_free,
            rewind=self._floor.rewind,
            watchdog=self.watchdog,
        )
        self.outside = outside_of(self.crew, self._poll_seconds, lambda: self._told_mode[1])
        threads = threads or settings.THREADS
        self.limits = limits_of(self.crew, threads, self._poll_seconds, lambda: self._told_mode[1])
        self.crew.through = self.limits.done if self.limits else None
        self.row_changes = RowChanges(self.using, self.watchdog, self._call_loop)
        self._ending = Ending(self.lease, self.crew, self.outside, self.watchdog, lives_on=lives_on)
        self._upkeep = threading.Thread(target=self._keep_up, name="duebox-upkeep", daemon=True)
        self._ahead = Ahead(self.using, clock)
        # When to do what, on the monotonic clock.
        self._fire_at = self._claim_at = self._look_at = 0.0
        self._prepare_at = float("inf")
        self._next_claim_at = 0.0
        self._looked_at = 0.0
        # What other threads have told.
        self._is_called = self._is_told_to_look = False
        self._wants_room = False
        self._session = 0
        self._sent_under = 0
        """The lease of the last statement that was sent under one."""
        self._full_claims = 0
        self._told_mode = ("poll", False, 0)
        self._afterglow_until = 0.0
        self._errors = 0
        self._next_try = 0.0

    def run(self) -> None:
        """Works until `stop()`, or with `until_idle` until nothing is due."""
        self.watchdog.start()
        with own_connection(self.using, self.watchdog, "loop", engine=True) as self._watch:
            self._run()

    def _run(self) -> None:
        try:
            self._take_lease()
        except BaseException:
            self.watchdog.stop()
            raise
        if not self.lease.id:
            self.watchdog.stop()
            return  # stopped before the database was there
        logger.info("started: %s", self._described())
        self.lease.start()
        self.crew.start()
        if self.outside:
            self.outside.start()
        if self.limits:
            self.limits.start()
        self._upkeep.start()
        self.row_changes.start()
        for each in self._ears:
            each.start()
        try:
            while not self._stopping:
                self._bell.wait(self._poll_safely())
                if self._errors:
                    self._wait_unless_stopped(self._next_try - time.monotonic())
        finally:
            self._shut_down()

    def _described(self) -> str:
        mode = "once" if self._until_idle else "worker"
        return f"mode={mode} database={self.using} lease={self.lease.id} subscribers={len(self.subscribers)}"

    def stop(self) -> None:
        """Safe to call from a signal handler or another thread."""
        self._stopping = True
        if self._watch is not None:
            self._watch.until = time.monotonic() + STOP_SECONDS
        self._bell.ring()

    def wake(self, what: str | None = None, session: int = 0) -> None:
        """There is something new: what a NOTIFY says, and the session that sent it; or it is not known what."""
        if what in (None, CHANGES):
            self.row_changes.wake()
        if what == CHANGES:
            return  # what is planned by it sends a NOTIFY of its own
        if self.outside:
            self.outside.wake()
        if self.limits:
            self.limits.wake()
        if session and session == self._session:
            return  # this loop has fired something, and goes on to claim it
        if what != SCHEDULES:
            self._is_called = True
        if what != DUE_NOW:
            self._is_told_to_look = True
        self._bell.ring()

    def _call(self, *, look: bool = False) -> None:
        """A handler thread says that there may be something to claim; or, to look for, that something is due later."""
        if self.limits:
            self.limits.wake()
        self._call_loop(look=look)

    def _call_loop(self, *, look: bool = False) -> None:
        self._is_called = True
        if look:
            self._is_told_to_look = True
        self._bell.ring()

    def _thread_is_free(self) -> None:
        """That matters only if there was no room for all that could be claimed, or if the loop is to end when all is
        done. With 200 schedules a second it would be every other round of the loop."""
        if self._wants_room or self._until_idle:
            self._call_loop()

    def _take_lease(self) -> None:
        """A worker that starts before its database waits for it; `until_idle` gives up: the next run tries again."""
        while not self._stopping:
            try:
                self.lease.take()
                # Where only `once` runs, from cron, nobody else looks for strays.
                with limited():
                    rescue(self.using, conf().RESCUE_LIMIT, always=True)
            except OperationalError as error:
                if self._until_idle and self._errors >= len(WAITS):
                    raise
                self._bell.wait(self._after_error(error))
            else:
                return

    def _keep_up(self) -> None:
        """Beside the loop: after an update of the zone database it may have a million schedules to look at."""
        failures = 0
        with own_connection(self.using, self.watchdog, "upkeep"):
            while not self._stopping:
                try:
                    prepare_upkeep(self.using)
                    break
                except Exception:
                    if self._until_idle and failures == len(WAITS):
                        logger.exception("upkeep failed; the next run tries again")
                        break
                    wait = WAITS[failures] if failures < len(WAITS) else UPKEEP_AGAIN_SECONDS
                    failures += 1
                    logger.exception("upkeep failed; next try in %g s", wait)
                    close_connections()
                    self._wait_unless_stopped(wait)
        self.wake()

    def _wait_unless_stopped(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _shut_down(self) -> None:
        for each in self._ears:
            each.stop()
        if self.limits:
            self.limits.stop()
        self.row_changes.stop()
        self._ending.shut_down(time.monotonic() + self._shutdown_seconds)

    def _poll_safely(self) -> float:
        try:
            limit()
            self._sent_under = self.lease.id
            tidy_connections()
            delay = self._poll()
            self._errors = 0
        except (DatabaseError, InterfaceError) as error:
            # A claim may have been committed although its answer was lost; nobody would run what it took. The heartbeat
            # may have taken a new lease meanwhile, under which nothing was claimed.
            self.lease.abandon(f"a claim failed: {str(error).strip()}", self._sent_under)
            self._claim_at = self._look_at = 0.0
            if self._until_idle and self._errors >= len(WAITS):
                logger.error("run ended, the next one tries again: database error: %s", str(error).strip())
                raise
            delay = self._after_error(error)
        finally:
            limit(None)
        return delay

    def _after_error(self, error: Exception) -> float:
        connections[self.using].close()
        delay = WAITS[self._errors] if self._errors < len(WAITS) else max(self._poll_seconds, WAITS[-1])
        self._errors += 1
        self._next_try = time.monotonic() + delay
        logger.warning("database error, next try in %g s: %s", delay, str(error).strip())
        return delay

    def _poll(self) -> float:
        """Do what it is time for; returns how long to sleep."""
        self._take_notice()
        fired = self._fire_prepared()
        if time.monotonic() >= self._fire_at:
            fired += self._fire()
        if time.monotonic() >= self._claim_at:
            self._claim(fired=fired > 0)
        if self._claim_at > 0.0:  # else there is more to claim at once
            if time.monotonic() >= self._look_at and self._has_time(self._look_at):
                self._look()
            elif time.monotonic() >= self._prepare_at and self._has_time(self._prepare_at):
                self._prepare()
        return self._until_next()

    def _take_notice(self) -> None:
        """Of what other threads have told since the last time. Each flag is taken down before it is acted on, so what
        is told meanwhile is not lost."""
        connection = connections[self.using].connection
        self._session = connection.info.backend_pid if connection is not None and not connection.closed else 0
        if self._is_called:
            self._is_called = False
            self._claim_at = 0.0
        if self._is_told_to_look:
            self._is_told_to_look = False
            self._look_at = min(self._look_at, time.monotonic())

    def _until_next(self) -> float:
        prepared = self._until_prepared()
        if prepared is not None and prepared < GAP_SECONDS and self._claim_at > 0.0:
            return prepared  # whatever else there is waits until it has fired
        until = min(self._claim_at, self._fire_at, self._look_at, self._prepare_at) - time.monotonic()
        return max(0.0, until if prepared is None else min(until, prepared))

    def _until_prepared(self) -> float | None:
        """Without a lease nothing fires that way."""
        return self._ahead.seconds() if self.lease.id else None

    def _has_time(self, since: float) -> bool:
        """Whether nothing that is prepared comes due within the next milliseconds; after a while it is done anyway."""
        prepared = self._until_prepared()
        return prepared is None or prepared >= GAP_SECONDS or time.monotonic() - since > GAP_WITHIN_SECONDS

    def _claim(self, *, fired: bool) -> None:
        """Take what is due, as far as there is room for it."""
        # Asked before the claim: a handler that ends after it may have emitted more.
        was_idle = not self.crew.busy()
        # Said before it is asked how much room there is: a thread that has less to do after that calls.
        self._wants_room = True
        room = self.crew.room()
        self._claim_at = time.monotonic() + self._poll_seconds
        if not self._names:
            self._keep_mode(asleep=True)  # for the sake of destinations
            if not (fired or self._upkeep.is_alive()):
                self._stop_if_idle()
        lease = self._sent_under = self.lease.id
        if not lease:
            self._claim_at = time.monotonic() + min(self._poll_seconds, NO_LEASE_SECONDS)
            return
        if room <= 0 or not self._names:
            return
        self._wants_room = False
        floor = self._floor.value
        past = self._crowds.streams
        claims, parked = claim(self.using, lease, self._names, room, floor=floor, past=past)
        self.crew.put(claims)
        full = len(claims) + parked.total() >= room
        self._floor.move(claims[-1].due if full and claims else None)
        if self._crowds.see(parked, lambda _: room):
            self._floor.rewind()
        if full or self._crowds:
            self._full_claims += 1
            self._keep_mode(asleep=self._full_claims < FULL_CLAIMS_UNTIL_AWAKE)
            self._claim_at = 0.0
        elif floor and not claims:
            self._claim_at = 0.0  # something may lie below it
        else:
            if was_idle and not (fired or claims or parked or self._upkeep.is_alive()):
                self._stop_if_idle()
            self._rest()

    def _rest(self) -> None:
        """Nothing more is due: when is it worth to claim again?"""
        self._full_claims = 0
        now = time.monotonic()
        if self._keep_mode(asleep=True):
            # Emitters that looked before this saw a busy worker and sent no NOTIFY; look after them.
            self._afterglow_until = now + AFTERGLOW_SECONDS
            self._claim_at = 0.0
            return
        if now >= self._next_claim_at:
            self._look_at = min(self._look_at, now)
        else:
            self._claim_at = self._next_claim_at
        if now < self._afterglow_until:
            self._claim_at = min(self._claim_at, now + AFTERGLOW_POLL_SECONDS)

    def _stop_if_idle(self) -> None:
        """Nothing is left to do here; what goes outside may still be on its way, or cause more, and handlers with a
        limit may have to wait."""
        if not self._until_idle or (self.limits and not self.limits.settled_down()):
            return
        if not self.row_changes.is_done():
            return  # it calls the loop
        if self.outside is None or self.outside.settled_down():
            self.stop()

    def _fire_prepared(self) -> int:
        """The shortest way from a moment to its handler: one statement, and no claim."""
        if self._ahead.seconds() != 0.0 or not self.lease.id:
            return 0
        self._sent_under = self.lease.id
        fired = self._ahead.fire(self._sent_under, self._names, self.crew.room())
        self.crew.put(fired.claims)
        if fired.to_claim:
            self._claim_at = 0.0
        if fired.look_again:
            self._fire_at = 0.0
        return 1

    def _fire(self) -> int:
        """Schedules come first: a crowd of deliveries must not make them late."""
        due = fired = fire_due(self.using).due
        while fired == BATCH and due < CROWD:
            limit()
            fired = fire_due(self.using).due
            due += fired
        self._looked_at = time.monotonic() if fired < BATCH else 0.0
        self._fire_at = time.monotonic() + BUSY_FIRE_SECONDS if fired < BATCH else 0.0
        self._look_at = min(self._look_at, time.monotonic())
        if due:
            self._claim_at = 0.0
        return due

    def _look(self) -> None:
        """Ask when the next delivery and the next schedule are due; prepare the schedules that are near."""
        to_next = seconds_to_next(self.using, self._names)
        now = time.monotonic()
        claim_in = self._poll_seconds
        if to_next.delivery is not None:
            claim_in = min(claim_in, time_source.real_seconds(to_next.delivery))
        self._next_claim_at = now + claim_in
        self._claim_at = min(self._claim_at, self._next_claim_at)
        # Whoever stores a schedule for the next minute sends a NOTIFY; beyond that a worker must look by itself.
        longest = min(self._poll_seconds, LONGEST_SLEEP_SECONDS)
        soon = longest if to_next.schedule is None else time_source.real_seconds(to_next.schedule)
        self._prepare_at = float("inf")
        self._look_at = now + longest
        if soon <= 0.0 and -soon > now - self._looked_at:
            # It was due at the last look already, so somebody holds it: it is no use to hurry.
            self._fire_at = self._looked_at + HELD_SECONDS
        elif soon <= -BEFORE_SECONDS:
            self._fire_at = 0.0
        elif soon < AHEAD_SECONDS:
            self._ahead.look()
            self._plan_preparing()
        else:
            self._fire_at = now + min(soon, longest)
            self._look_at = now + (max(0.0, soon - PREPARE_SECONDS) if soon < longest else longest)

    def _prepare(self) -> None:
        """The schedules that follow those that are prepared."""
        prepared = self._ahead.seconds()
        self._ahead.look_further(hurry=prepared is not None and prepared < HURRY_SECONDS)
        self._plan_preparing()

    def _plan_preparing(self) -> None:
        now = time.monotonic()
        self._fire_at = now + self._ahead.seconds_to_other()
        further = self._ahead.seconds_to_further_look()
        self._prepare_at = float("inf") if further is None else now + further

    def _keep_mode(self, *, asleep: bool) -> bool:
        """Tell emitters whether a NOTIFY is worth sending. True when that changed from no to yes, also because a new
        lease has not said so before."""
        mode = self.listener.mode if self.listener else "poll"
        listening = asleep and mode == "listen"
        told = (mode, listening, self.lease.id)
        if told == self._told_mode:
            return False
        woken = listening and (not self._told_mode[1] or self._told_mode[2] != told[2])
        leases.set_mode(self.using, self.lease.id, mode=mode, listening=listening)
        self._told_mode = told
        return woken
