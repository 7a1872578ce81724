"""Gauges: numbers about the whole database, the same in every process.

They come from `observe.status`, from the history of the last day and from the states of destinations. They are read
when an exporter asks, and are cached for `CACHED_SECONDS`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from django.db import connections

from duebox.context.metrics import Labels, Metric
from duebox.destinations.registry import subscriptions
from duebox.events.address import Address
from duebox.observe.status import Status, status
from duebox.store.attempts import day
from duebox.store.destinations import state_counts

logger = logging.getLogger("duebox.metrics")

CACHED_SECONDS = 10.0
WAIT_SECONDS = 2.0
"""How long to wait for another thread that reads them; after that the previous values are used."""


class Gauge(Metric):
    kind = "gauge"


SCHEDULED = Gauge("scheduled_count", "Schedules that are to fire; an estimate above 10,000")
COMPLETED = Gauge("completed_24h", "Deliveries that succeeded in the last 24 hours")
FAILED = Gauge("failed_24h", "Dead letters of the last 24 hours")
PROCESSING = Gauge(
    "processing_time_avg", "Mean of 24 hours from due time to success of a delivery, in seconds", unit="seconds"
)
RETRY_RATE = Gauge("retry_rate", "Deliveries of 24 hours that needed more than one attempt, in percent", unit="percent")
DLQ_DEPTH = Gauge("events.dlq.depth", "Dead letters, without those that are parked; counted up to 10,000")
QUEUE_DEPTH = Gauge("queue.depth", "Stored deliveries by state; counted up to 10,000", labels=("state",))
OLDEST_DUE = Gauge("queue.oldest_due", "For how long the oldest delivery has been due, in seconds", unit="seconds")
AHEAD = Gauge("schedules.ahead", "Schedules due within the next minute, hour and day", labels=("within",))
OVERDUE = Gauge("schedules.overdue", "Schedules that should have fired more than a minute ago")
OLDEST_OVERDUE = Gauge("schedules.oldest_overdue", "How late the first overdue schedule is, in seconds", unit="seconds")
WORKERS = Gauge("workers.alive", "Workers with a fresh heartbeat")
LISTENING = Gauge("workers.listening", "Workers that are woken by the database")
UNSEALED = Gauge("audit.unsealed", "Audit entries that are not in the hash chain yet")
SEALING_LAG = Gauge(
    "audit.sealing_lag", "Age of the oldest audit entry that is not sealed yet, in seconds", unit="seconds"
)
DESTINATIONS = Gauge(
    "destinations.state",
    "Endpoints of a destination that are paused, with an open circuit breaker, or failing",
    labels=("consumer", "state"),
)
REACHABLE = Gauge("database.reachable", "1 if these numbers could be read, else 0")

GAUGES = (
    SCHEDULED, COMPLETED, FAILED, PROCESSING, RETRY_RATE, DLQ_DEPTH, QUEUE_DEPTH, OLDEST_DUE, AHEAD, OVERDUE,
    OLDEST_OVERDUE, WORKERS, LISTENING, UNSEALED, SEALING_LAG, DESTINATIONS, REACHABLE,
)  # fmt: skip
STATES = ("due", "running", "retrying", "later", "waiting", "held_back", "parked")
DESTINATION_STATES = ("paused", "open", "failing")

Readings = Mapping[Gauge, Mapping[Labels, float]]


class DatabaseGauges:
    """The gauges of one database. `connection` is entered around a reading; a worker passes a connection with timeouts,
    so that a database that does not answer does not block it. By default it is the connection of the thread."""

    def __init__(self, using: str, connection: Callable[[], AbstractContextManager[object]] | None = None) -> None:
        self._using = using
        self._connection = connection or partial(_connection_of_thread, using)
        self._lock = threading.Lock()
        self._readings: Readings = {}
        self._read_at = float("-inf")

    def read(self) -> Readings:
        """The values of a few seconds ago; older ones while another thread waits for the database. If the database
        cannot be reached there is only `database.reachable`."""
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            return self._readings
        try:
            if time.monotonic() - self._read_at > CACHED_SECONDS:
                self._readings = self._read()
                self._read_at = time.monotonic()
            return self._readings
        finally:
            self._lock.release()

    def _read(self) -> Readings:
        try:
            with self._connection():
                return read_gauges(self._using)
        except Exception as error:
            logger.warning("metrics could not be read from the database: %s", str(error).strip())
            return {REACHABLE: {(): 0.0}}


@contextmanager
def _connection_of_thread(using: str) -> Iterator[None]:
    """A connection that was opened for this is closed: nothing else closes it in the thread of an exporter."""
    is_open = connections[using].connection is not None
    try:
        yield
    finally:
        if not is_open:
            connections[using].close()


def read_gauges(using: str) -> Readings:
    found, today = status(using=using), day(using)
    return {
        SCHEDULED: {(): today.scheduled},
        COMPLETED: {(): today.completed},
        FAILED: {(): today.failed},
        PROCESSING: {(): today.processing_seconds},
        RETRY_RATE: {(): today.retried_percent},
        **_of_status(found),
        DESTINATIONS: _destination_states(using),
        REACHABLE: {(): 1.0},
    }


def _of_status(found: Status) -> Readings:
    return {
        DLQ_DEPTH: {(): found.dead},
        QUEUE_DEPTH: {(state,): getattr(found, state) for state in STATES},
        OLDEST_DUE: {(): found.oldest_due_seconds or 0.0},
        AHEAD: {(span,): getattr(found, f"schedules_next_{span}") for span in ("minute", "hour", "day")},
        OVERDUE: {(): found.schedules_overdue},
        OLDEST_OVERDUE: {(): found.oldest_overdue_seconds or 0.0},
        WORKERS: {(): found.workers},
        LISTENING: {(): found.listening},
        UNSEALED: {(): found.unsealed},
        SEALING_LAG: {(): found.oldest_unsealed_seconds or 0.0},
    }


def _destination_states(using: str) -> dict[Labels, float]:
    """Also for destinations without a problem: otherwise the end of a problem could not be seen."""
    known: dict[Labels, float] = {
        (str(Address.of_destination(alias)), state): 0 for alias in subscriptions() for state in DESTINATION_STATES
    }
    for name, *counts in state_counts(using):
        known |= {(name, state): count for state, count in zip(DESTINATION_STATES, counts, strict=True)}
    return known
