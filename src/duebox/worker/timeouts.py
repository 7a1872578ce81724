"""Handlers that take too long: a warning for each that is slow, and an end for those that have a timeout.

One thread of the worker looks at what the handler threads run. The database connection of an atomic handler is closed
when its time is over, so that PostgreSQL rolls back what it did. No thread can be stopped from outside: one that does
not come back soon is left to itself, its attempt counts as failed, what it returns later is ignored, and another
thread takes its place.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from django.db import DatabaseError, InterfaceError

from duebox.conf import conf
from duebox.exceptions import HandlerTimeout
from duebox.store.deliveries import Claim, Ended
from duebox.subscribers import Subscriber
from duebox.worker.cutting import cancel, cut
from duebox.worker.dispatch import Running, failure, timeout_error
from duebox.worker.patience import patiently
from duebox.worker.sessions import own_connection
from duebox.worker.settling import settle
from duebox.worker.watchdog import limited

if TYPE_CHECKING:
    from duebox.worker.crew import Crew
    from duebox.worker.hand import Hand

logger = logging.getLogger("duebox.worker")

TICK_SECONDS = 0.25
GRACE_SECONDS = 1.0
"""A handler that was cut off, or cancelled, has so long to come back by itself."""


class Timeouts:
    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._slow_seconds = conf().SLOW_HANDLER_SECONDS or float("inf")
        limits = [each.timeout for each in crew.subscribers.values() if each.timeout is not None]
        self._tick = max(0.02, min([TICK_SECONDS, *(each / 2 for each in limits)]))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="duebox-timeouts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _look_until_stopped(self) -> None:
        with own_connection(self._crew.using, self._crew.watchdog, "timeouts", engine=True):
            while not self._stopping.wait(self._tick):
                try:
                    for hand in self._crew.hands():
                        self._look_at(hand)
                    self._crew.replace_later()
                except Exception:
                    logger.exception("unexpected error while looking for slow handlers; it goes on")

    def _look_at(self, hand: Hand) -> None:
        running = hand.current
        started, claim, subscriber = running.started, running.claim, running.subscriber
        if not started or claim is None or subscriber is None or hand.is_abandoned:
            return
        seconds = time.monotonic() - started
        if seconds > self._slow_seconds and not running.is_reported:
            running.is_reported = True
            logger.warning("handler is slow: %s seconds=%.1f", _named(claim), seconds)
        if subscriber.timeout is None or seconds <= subscriber.timeout:
            return
        late = seconds - subscriber.timeout
        if not running.timed_out and (late > GRACE_SECONDS / 2 or not subscriber.is_async):
            self._interrupt(hand, running, started)
        if late > GRACE_SECONDS:
            self._abandon(hand, running, started, claim, subscriber)

    def _interrupt(self, hand: Hand, running: Running, started: float) -> None:
        """While the lock is held the handler cannot end, so that nothing else is hit that the thread does next."""
        with running.lock:
            if running.started != started:
                return
            running.timed_out = True
            if running.subscriber is not None and running.subscriber.atomic:
                cancel(hand.connection)
                cut(hand.connection)

    def _abandon(self, hand: Hand, running: Running, started: float, claim: Claim, subscriber: Subscriber) -> None:
        with running.lock:
            if running.started != started:
                return
            hand.is_abandoned = True
        error = _where_it_is(timeout_error(subscriber), hand.thread_id)
        logger.warning("handler does not end, its thread is left: %s timeout=%gs", _named(claim), subscriber.timeout)
        others = hand.abandon(claim)
        if self._crew.through is not None:
            self._crew.through([claim, *others])
        self._crew.replace(hand)
        took_ms = (time.monotonic() - started) * 1000
        end = Ended(claim, failure(claim, subscriber, error), self._crew.clock.now() - took_ms / 1000, took_ms)
        try:
            with own_connection(self._crew.using, self._crew.watchdog, "timeouts", engine=True):
                self._write(end, others)
        except (DatabaseError, InterfaceError) as problem:
            self._crew.lease.abandon(f"a timeout could not be written: {str(problem).strip()}", claim.lease)

    def _write(self, end: Ended, others: list[Claim]) -> None:
        with limited():
            lost = patiently(lambda: settle(self._crew.using, end.claim.lease, [end]))
        if not lost:
            self._crew.settled([end])
        else:  # perhaps it was settled, and the answer lost
            self._crew.promote_next([end.claim])
        if others:
            self._crew.give_back(others, "shared a transaction with one that timed out")
            self._crew.wake()


def _named(claim: Claim) -> str:
    return f"subscriber={claim.subscriber} type={claim.fact.type} event_id={claim.fact.id} attempt={claim.attempt}"


def _where_it_is(error: HandlerTimeout, thread: int) -> HandlerTimeout:
    """With the traceback of the place where the handler is at this moment."""
    frame: FrameType | None = sys._current_frames().get(thread)
    trace: TracebackType | None = None
    while frame is not None:
        trace = TracebackType(trace, frame, max(frame.f_lasti, 0), frame.f_lineno or 0)
        if frame.f_globals.get("__name__") == "duebox.worker.dispatch":
            break
        frame = frame.f_back
    return error.with_traceback(trace)
