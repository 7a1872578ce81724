"""The worker: the loop that fires, claims and sleeps, what it consists of, and its end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from duebox.conf import conf
from duebox.events.address import is_outside
from duebox.events.identities import uuid7
from duebox.events.subscribers import matching
from duebox.observe.metrics.exporters import Exporters
from duebox.observe.metrics.gauges import DatabaseGauges
from duebox.redis.wakeup import tier_of
from duebox.store.deliveries import seconds_to_next
from duebox.worker.background_threads import AuditSealing, BackgroundThread, Retention, Rollups, RowChanges
from duebox.worker.claimer import Claimer, NotifyMode
from duebox.worker.connections import own_connection, replace_connections
from duebox.worker.handler_pool import HandlerPool
from duebox.worker.health import Health, Pulse, health_of
from duebox.worker.lease import rescue
from duebox.worker.limited_handlers import limited_handlers_of
from duebox.worker.listener import Listener
from duebox.worker.maintenance import Maintenance
from duebox.worker.resources import Resources
from duebox.worker.scheduler import Scheduler
from duebox.worker.senders import Sender, sender_of
from duebox.worker.settle import Settler
from duebox.worker.timeouts import Timeouts
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import Watch, limit, limited

logger = logging.getLogger("duebox.worker")


class Worker:
    """One process: a lease, a loop that fires schedules and claims deliveries, and threads that do the rest.

    With `until_idle` it ends when nothing is due. `lives_on` says that the process does not end with the worker, so
    that a handler which does not end in time goes on.
    """

    def __init__(self, *, using: str | None = None, threads: int | None = None, batch: int | None = None,
                 poll: float | None = None, only: tuple[str, ...] = (), until_idle: bool = False,
                 lives_on: bool = False) -> None:  # fmt: skip
        settings = conf()
        threads = threads or settings.THREADS
        self.using = using or settings.DATABASE
        self.subscribers = matching(only)
        self._names = [name for name, each in self.subscribers.items() if not is_outside(name) and each.limit is None]
        """The handlers that the loop claims for."""
        self._until_idle = until_idle
        self._poll_seconds = poll or settings.POLL_SECONDS
        self._shutdown_seconds = settings.SHUTDOWN_SECONDS
        resources = Resources.create(self.using, until_idle=until_idle)
        self.lease, self.watchdog, self.wakeup = resources.lease, resources.watchdog, resources.wakeup
        listens = settings.LISTEN and not until_idle
        self.listener = Listener(self.lease, self.wakeup, self.watchdog) if listens else None
        self.notify_mode = NotifyMode(self.lease, self.listener, self._poll_seconds)
        self.settler = Settler(resources)
        self.outcome_counts = self.settler.outcome_counts
        self.pool = HandlerPool(
            resources, self.settler, self.subscribers, threads=threads, batch=batch or settings.BATCH_SIZE
        )
        self.timeouts = Timeouts(self.pool, resources, self.settler)
        self.sender = sender_of(resources, self.settler, self.pool.inbox, self.notify_mode, self.subscribers.values())
        self.pulse = Pulse()
        self.scheduler = Scheduler(resources, self.pool, self.pulse, self._names, self._poll_seconds)
        self.claimer = Claimer(resources, self.pool, self.notify_mode, self._names)
        self.limited_handlers = limited_handlers_of(resources, self.pool, self.notify_mode, threads)
        self.maintenance = Maintenance(self.using, self.watchdog, self.wakeup, until_idle=until_idle)
        self.row_changes = RowChanges(self.using, self.watchdog, self.wakeup)
        self.audit = AuditSealing(self.using, self.watchdog)
        self.rollups = Rollups(self.using, self.watchdog, at_once=until_idle)
        self.retention = None if until_idle else Retention(self.using, self.watchdog)
        optional = (self.limited_handlers, self.retention, self.listener)
        self._background: list[BackgroundThread] = [self.maintenance, self.row_changes, self.audit, self.rollups]
        self._background += [each for each in optional if each is not None]
        self._redis = None if until_idle else tier_of(self.wakeup.notified, self.using)
        self.exporters = Exporters(DatabaseGauges(self.using, self._metrics_connection))
        self._shutdown = Shutdown(self, lives_on=lives_on)
        self._watch: Watch | None = None
        self._stopping = False
        self._stopped_at = float("inf")
        self._is_idle = False
        """Whether it ends because nothing is due."""
        self._next_try = 0.0
        self._sent_under = 0
        """The lease under which the last statement was sent."""

    def run(self) -> None:
        """Work until `stop()`, or with `until_idle` until nothing is due."""
        self.watchdog.start()
        with own_connection(self.using, self.watchdog, "loop", engine=True) as self._watch:
            try:
                self._take_lease()
            except BaseException:
                self.watchdog.stop()
                raise
            if not self.lease.id:
                self.watchdog.stop()
                return  # it was stopped before the database was there
            self._run()

    def _run(self) -> None:
        logger.info("started: %s", self._described(), extra=self._fields())
        self._start_threads()
        try:
            self.exporters.start()
            while not self._stopping:
                self.pulse.turn()
                self.wakeup.wait(self._poll_safely())
                if self.pulse.errors:
                    self._wait_unless_stopped(self._next_try - time.monotonic())
        finally:
            self._shut_down()

    def _poll(self) -> float:
        """Do what it is time for; returns how long to sleep."""
        self._read_signals()
        self._sent_under = self.lease.id
        fired = self.scheduler.fire(self._sent_under)
        if fired.to_claim:
            self.claimer.claim_at_once()
        if self.claimer.is_time():
            self._claim(fired=fired.number > 0)
        if not self.claimer.may_have_more():
            if self.scheduler.is_time_to_look():
                self._look()
            elif self.scheduler.is_time_to_prepare():
                self.scheduler.prepare()
        return self._seconds_to_next()

    def _read_signals(self) -> None:
        """Act on what other threads have signalled since the last turn."""
        connection = connections[self.using].connection
        is_open = connection is not None and not connection.closed
        self.wakeup.loop_session = connection.info.backend_pid if is_open else 0
        if self.wakeup.take_claim():
            self.claimer.claim_at_once()
        if self.wakeup.take_look():
            self.scheduler.look_soon()

    def _claim(self, *, fired: bool) -> None:
        was_idle = not self.pool.busy()  # asked before the claim: a handler that ends after it may have emitted more
        self._sent_under = self.lease.id
        nothing_was_due = self.claimer.claim(self._sent_under)
        if self.claimer.needs_look:
            self.scheduler.look_soon()
        if self._until_idle and nothing_was_due and was_idle and not fired:
            self._stop_if_idle()

    def _look(self) -> None:
        """Ask the database when the next delivery and the next schedule are due."""
        to_next = seconds_to_next(self.using, self._names)
        self.claimer.next_due_in(to_next.delivery)
        self.scheduler.next_due_in(to_next.schedule)

    def _seconds_to_next(self) -> float:
        prepared = self.scheduler.seconds_to_prepared()
        if prepared is not None and prepared < TUNABLES.put_off_seconds and not self.claimer.may_have_more():
            return prepared  # everything else waits until it has fired
        seconds = min(self.claimer.claim_at, self.scheduler.next_at()) - time.monotonic()
        return max(0.0, seconds if prepared is None else min(seconds, prepared))

    def _stop_if_idle(self) -> None:
        """The loop has nothing left to do. Destinations and limited handlers may have, or cause more."""
        if not (self.maintenance.is_done and self.row_changes.is_done):
            return  # they wake the loop
        if self.limited_handlers and not self.limited_handlers.settled_down():
            return
        if self.sender is None or self.sender.settled_down():
            self._is_idle = True
            self.stop()

    def stop(self) -> None:
        """Safe to call from a signal handler or another thread."""
        self._stopping = True
        self._stopped_at = min(self._stopped_at, time.monotonic())
        if self._watch is not None:
            self._watch.until = time.monotonic() + TUNABLES.stop_statement_seconds
        self.wakeup.wake()

    def health(self, *, live_seconds: float = TUNABLES.live_seconds) -> Health:
        """Whether it is alive and ready. Asks nothing but the memory of this process."""
        turn_seconds = live_seconds + self._poll_seconds
        return health_of(self.lease, self.pulse, turn_seconds=turn_seconds, stopping=self._stopping)

    def _start_threads(self) -> None:
        self.lease.start()
        self.pool.start()
        self.timeouts.start()
        if self.sender:
            self.sender.start()
        for each in self._background:
            each.start()
        if self._redis:
            self._redis.start()

    def _shut_down(self) -> None:
        """SHUTDOWN_SECONDS count from the call of `stop`. All threads are told to stop before one of them is waited
        for, so that together they take no longer than the slowest."""
        now = time.monotonic()
        began, join_by = min(self._stopped_at, now), now + TUNABLES.stop_background_seconds
        if self._is_idle:
            self.rollups.catch_up_seconds = min(TUNABLES.stop_rollup_seconds, self._shutdown_seconds)
        for each in self._background:
            each.stop()
        if self._redis:
            self._redis.stop()
        for each in self._background:
            each.join(join_by)
        self._shutdown.shut_down(began + self._shutdown_seconds)
        self.exporters.stop()

    def _take_lease(self) -> None:
        """A worker that starts before its database waits for it; with `until_idle` it gives up, and the next run tries
        again."""
        while not self._stopping:
            self.pulse.turn()
            try:
                self.lease.take()
                # In a project that only runs `once`, from cron, no heartbeat lasts long enough to look for them.
                with limited():
                    rescue(self.using, conf().RESCUE_LIMIT, always=True)
            except OperationalError as error:
                if self._gives_up():
                    raise
                self.wakeup.wait(self._after_error(error))
            else:
                return

    def _poll_safely(self) -> float:
        try:
            limit()
            self._sent_under = self.lease.id
            replace_connections()
            delay = self._poll()
            self.pulse.errors = 0
        except (DatabaseError, InterfaceError) as error:
            # A claim may have been committed although its answer was lost, and no thread would run what it took. The
            # heartbeat may have taken a new lease meanwhile, under which nothing was claimed.
            self.lease.abandon(f"a claim failed: {str(error).strip()}", self._sent_under)
            self.claimer.claim_at_once()
            self.scheduler.look_at_once()
            if self._gives_up():
                logger.error("run ended, the next one tries again: database error: %s", str(error).strip())
                raise
            delay = self._after_error(error)
        finally:
            limit(None)
        return delay

    def _gives_up(self) -> bool:
        return self._until_idle and self.pulse.errors >= len(TUNABLES.retry_waits)

    def _after_error(self, error: Exception) -> float:
        connections[self.using].close()
        waits, errors = TUNABLES.retry_waits, self.pulse.errors
        delay = waits[errors] if errors < len(waits) else max(self._poll_seconds, waits[-1])
        self.pulse.errors += 1
        self._next_try = time.monotonic() + delay
        logger.warning("database error, next try in %g s: %s", delay, str(error).strip())
        return delay

    def _wait_unless_stopped(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TUNABLES.look_for_stop_seconds))

    @contextmanager
    def _metrics_connection(self) -> Iterator[None]:
        with own_connection(self.using, self.watchdog, "metrics", engine=True), limited(TUNABLES.gauges_seconds):
            yield

    def _described(self) -> str:
        mode = "once" if self._until_idle else "worker"
        return f"mode={mode} database={self.using} lease={self.lease.id} subscribers={len(self.subscribers)}"

    def _fields(self) -> dict[str, Any]:
        """The same for structured logs."""
        return {
            "worker_run_id": self._shutdown.run_id,
            "mode": "once" if self._until_idle else "worker",
            "database": self.using,
            "lease": self.lease.id,
            "subscribers": len(self.subscribers),
        }


class Shutdown:
    """The end of a worker: running handlers and calls get their time, the rest is released, and the lease ends."""

    def __init__(self, worker: Worker, *, lives_on: bool) -> None:
        self._using = worker.using
        self._lease = worker.lease
        self._pool = worker.pool
        self._timeouts = worker.timeouts
        self._sender: Sender | None = worker.sender
        self._watchdog = worker.watchdog
        self._counts = worker.outcome_counts
        self._lives_on = lives_on
        self._began = time.monotonic()
        self.run_id = str(uuid7())
        """Of this run of the worker, in its first and last log line."""

    def shut_down(self, deadline: float) -> None:
        """Whatever fails meanwhile, the heartbeat ends, and with it the lease: now, or when its time is over."""
        try:
            self._finish(deadline)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("stopped without the database: %s", str(error).strip())
        finally:
            if self._pool.is_at_work() or (self._sender and self._sender.is_at_work()):
                threading.Thread(target=self._wait_and_end_lease, name="duebox-last", daemon=True).start()
            else:
                self._end_lease()
        seconds = time.monotonic() - self._began
        fields = {"worker_run_id": self.run_id, **self._counts.as_dict(), "seconds": round(seconds, 3)}
        logger.info("stopped: %s seconds=%.1f", self._counts, seconds, extra=fields)

    def _finish(self, deadline: float) -> None:
        try:
            if self._sender:
                self._sender.stop()
            try:
                self._pool.finish(deadline)
            finally:  # also where Celery's time limit ends the wait
                self._timeouts.stop()
                self._pool.leave_behind(lives_on=self._lives_on)
        finally:
            if self._sender:
                self._sender.finish(deadline, lives_on=self._lives_on)

    def _wait_and_end_lease(self) -> None:
        """A handler that cannot be undone ends in its own time, under this lease, so that it runs nowhere else."""
        self._pool.join()
        if self._sender:
            self._sender.join()
        with own_connection(self._using, self._watchdog, "last", engine=True):
            self._end_lease()

    def _end_lease(self) -> None:
        try:
            self._lease.stop()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the lease was not given back, it runs out by itself: %s", str(error).strip())
        finally:
            self._watchdog.stop()
