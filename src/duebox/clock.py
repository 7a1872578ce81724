"""Which time it is for Duebox: the database's own, unless a test or a time lapse has put another clock in its place.

Statements take this clock's reading as `now`; without one they read the database's clock. What is decided in Python
uses `now()`, which is the database's clock as well, as soon as it was asked once: the clock of a host may be wrong, and
two hosts never agree. Leases and heartbeats always use real time: a worker is alive in real time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

STALE_SECONDS = 60.0
"""After so long the database is asked again; clocks drift, and a virtual machine may have been suspended."""

_reading: Callable[[], datetime] | None = None
_speed = 1.0


class DatabaseClock:
    """The database's clock, read without asking the database each time: monotonic time of this process plus the last
    known offset."""

    __slots__ = ("_asked_at", "_offset", "_quickest")

    def __init__(self) -> None:
        self._offset = host_time() - time.perf_counter()
        self._quickest = float("inf")
        self._asked_at = float("-inf")

    def now(self) -> float:
        """Seconds since 1970 on the database's clock."""
        return time.perf_counter() + self._offset

    def is_stale(self) -> bool:
        """Whether the database should be asked again."""
        return time.perf_counter() - self._asked_at > STALE_SECONDS

    def set(self, database_now: float, asked_at: float) -> None:
        """`asked_at` is the perf_counter before the question. The quicker the answer, the better the estimate; an old
        quick one loses its weight, since clocks drift."""
        trip = time.perf_counter() - asked_at
        self._quickest *= 1.1
        if trip <= self._quickest or self.is_stale():
            self._quickest = trip
            self._offset = database_now - asked_at - trip / 2
        self._asked_at = asked_at


def host_time() -> float:
    """The clock of this host, used until the database was asked."""
    return time.time()


database = DatabaseClock()


def override() -> datetime | None:
    """The reading that stands in for the database's clock, or None when that clock is to be read."""
    return _reading() if _reading is not None else None


def now() -> datetime:
    """The time for everything decided in Python."""
    return _reading() if _reading is not None else datetime.fromtimestamp(database.now(), UTC)


def real_seconds(seconds: float) -> float:
    """How long to wait in real time for so many seconds to pass on this clock."""
    return seconds / _speed if _speed else float("inf")


def replace(reading: Callable[[], datetime] | None, speed: float = 1.0) -> None:
    """Put another clock in place for the whole process, or with None take it away. A speed of 0 is a frozen clock."""
    global _reading, _speed
    _reading, _speed = reading, speed if reading is not None else 1.0


def lapse(start: datetime, speed: float, *, since: float, read: Callable[[], float]) -> Callable[[], datetime]:
    """A clock that showed `start` when `read` gave `since` and runs `speed` times as fast."""
    zero = start.timestamp()
    return lambda: datetime.fromtimestamp(zero + (read() - since) * speed, UTC)
