"""Handlers that take too long: a warning for each that is slow, and an end for those that have a timeout.

One thread of the worker looks at what the handler threads run. The database connection of an atomic handler is closed
when its time is over, so that PostgreSQL rolls back what it did. Python cannot stop a thread: one that does not come
back soon is abandoned, its attempt counts as failed, what it returns later is ignored, and another thread takes its
place.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import partial
from types import FrameType, TracebackType

from django.db import DatabaseError, InterfaceError

from duebox.conf import conf
from duebox.events.subscribers import Subscriber
from duebox.exceptions import HandlerTimeout
from duebox.store.deliveries import Claim, Ended
from duebox.worker.background_threads import BackgroundThread
from duebox.worker.connections import own_connection, with_retries
from duebox.worker.handler_pool import HandlerPool
from duebox.worker.handler_thread import HandlerThread
from duebox.worker.resources import Resources
from duebox.worker.run_handler import Running, failure, timeout_error
from duebox.worker.settle import Settler, fields_of, settle
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import cancel, cut, limited

logger = logging.getLogger("duebox.worker")


class Timeouts(BackgroundThread):
    name = "timeouts"

    def __init__(self, pool: HandlerPool, resources: Resources, settler: Settler) -> None:
        super().__init__()
        self._pool = pool
        self._resources = resources
        self._settler = settler
        self._slow_seconds = conf().SLOW_HANDLER_SECONDS or float("inf")
        limits = [each.timeout for each in pool.subscribers.values() if each.timeout is not None]
        tick = min([TUNABLES.timeout_tick_seconds, *(each / 2 for each in limits)])
        self._tick = max(TUNABLES.shortest_timeout_tick_seconds, tick)

    def run(self) -> None:
        with own_connection(self._resources.using, self._resources.watchdog, "timeouts", engine=True):
            while not self.stopping.wait(self._tick):
                try:
                    for handler_thread in self._pool.handler_threads():
                        self._look_at(handler_thread)
                    self._pool.replace_later()
                except Exception:
                    logger.exception("unexpected error while looking for slow handlers; it goes on")

    def _look_at(self, handler_thread: HandlerThread) -> None:
        running = handler_thread.current
        started, claim, subscriber = running.started, running.claim, running.subscriber
        if not started or claim is None or subscriber is None or handler_thread.is_abandoned:
            return
        seconds = time.monotonic() - started
        if seconds > self._slow_seconds and not running.is_reported:
            running.is_reported = True
            fields = {**fields_of(claim), "seconds": round(seconds, 1)}
            logger.warning("handler is slow: %s seconds=%.1f", _named(claim), seconds, extra=fields)
        if subscriber.timeout is None or seconds <= subscriber.timeout:
            return
        late = seconds - subscriber.timeout
        if not running.timed_out and (late > TUNABLES.timeout_grace_seconds / 2 or not subscriber.is_async):
            self._interrupt(handler_thread, running, started)
        if late > TUNABLES.timeout_grace_seconds:
            self._abandon(handler_thread, running, started, claim, subscriber)

    def _interrupt(self, handler_thread: HandlerThread, running: Running, started: float) -> None:
        """While the lock is held the handler cannot end, so that nothing is interrupted that the thread does next."""
        with running.lock:
            if running.started != started:
                return
            running.timed_out = True
            if running.subscriber is not None and running.subscriber.atomic:
                cancel(handler_thread.connection)
                cut(handler_thread.connection)

    def _abandon(
        self, handler_thread: HandlerThread, running: Running, started: float, claim: Claim, subscriber: Subscriber
    ) -> None:
        with running.lock:
            if running.started != started:
                return
            handler_thread.is_abandoned = True
        error = _where_it_is(timeout_error(subscriber), handler_thread.thread_id)
        fields = {**fields_of(claim), "timeout": subscriber.timeout}
        logger.warning(
            "handler does not end, its thread is abandoned: %s timeout=%gs",
            _named(claim),
            subscriber.timeout,
            extra=fields,
        )
        others = handler_thread.abandon(claim)
        self._pool.inbox.done([claim, *others])
        self._pool.replace(handler_thread)
        took_ms = (time.monotonic() - started) * 1000
        end = Ended(claim, failure(claim, subscriber, error), self._resources.clock.now() - took_ms / 1000, took_ms)
        try:
            with own_connection(self._resources.using, self._resources.watchdog, "timeouts", engine=True):
                self._write(end, others)
        except (DatabaseError, InterfaceError) as problem:
            self._resources.lease.abandon(f"a timeout could not be written: {str(problem).strip()}", claim.lease)

    def _write(self, end: Ended, others: list[Claim]) -> None:
        with limited():
            lost = with_retries(partial(settle, self._resources.using, end.claim.lease, [end]))
        if not lost:
            self._settler.settled([end])
        else:  # perhaps it was settled, and the answer was lost
            self._settler.promote_next([end.claim])
        if others:
            self._settler.release(others, "shared a transaction with one that timed out")
            self._resources.wakeup.claim()


def _named(claim: Claim) -> str:
    return f"subscriber={claim.subscriber} type={claim.fact.type} event_id={claim.fact.id} attempt={claim.attempt}"


def _where_it_is(error: HandlerTimeout, thread: int) -> HandlerTimeout:
    """With the traceback of the place where the handler is at this moment."""
    frame: FrameType | None = sys._current_frames().get(thread)
    trace: TracebackType | None = None
    while frame is not None:
        trace = TracebackType(trace, frame, max(frame.f_lasti, 0), frame.f_lineno or 0)
        if frame.f_globals.get("__name__") == "duebox.worker.run_handler":
            break
        frame = frame.f_back
    return error.with_traceback(trace)
