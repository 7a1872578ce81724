"""The current time for Duebox: that of the database, unless a test or a time lapse has set another clock. Statements
take the time of that clock as `now`; without it they read the database's clock. Python code uses `now()`, which follows
the database's clock too after the first query: the clock of a host may be wrong, and two hosts never agree. Leases and
heartbeats always use real time, because a worker runs in real time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["lapse", "now", "replace"]

STALE_SECONDS = 60.0
"""The database's clock is read again after this time; clocks drift, and a virtual machine may have been suspended."""

_reading: Callable[[], datetime] | None = None
_speed = 1.0


class DatabaseClock:
    """The database's clock without a query for each reading: monotonic time of this process plus the last known
    offset."""

    __slots__ = ("_asked_at", "_offset", "_quickest")

    def __init__(self) -> None:
        self._offset = host_time() - time.perf_counter()
        self._quickest = float("inf")
        self._asked_at = float("-inf")

    def now(self) -> float:
        """Seconds since 1970 on the database's clock."""
        return time.perf_counter() + self._offset

    def is_stale(self) -> bool:
        """Whether the database's clock should be read again."""
        return time.perf_counter() - self._asked_at > STALE_SECONDS

    def set(self, database_now: float, asked_at: float) -> None:
        """`asked_at` is the perf_counter before the query. A faster round trip gives a better estimate; an old estimate
        loses its weight, since clocks drift."""
        trip = time.perf_counter() - asked_at
        self._quickest *= 1.1
        if trip <= self._quickest or self.is_stale():
            self._quickest = trip
            self._offset = database_now - asked_at - trip / 2
        self._asked_at = asked_at


def host_time() -> float:
    """The clock of this host, used until the database's clock was read."""
    return time.time()


database = DatabaseClock()


def override() -> datetime | None:
    """The time to use instead of the database's clock, or None to read that clock."""
    return _reading() if _reading is not None else None


def now() -> datetime:
    """The current time for Python code."""
    return _reading() if _reading is not None else datetime.fromtimestamp(database.now(), UTC)


def real_seconds(seconds: float) -> float:
    """Convert seconds on this clock into seconds of real time."""
    return seconds / _speed if _speed else float("inf")


def replace(reading: Callable[[], datetime] | None, speed: float = 1.0) -> None:
    """Set another clock for the whole process, or remove it with None. A speed of 0 is a frozen clock."""
    global _reading, _speed
    _reading, _speed = reading, speed if reading is not None else 1.0


def lapse(start: datetime, speed: float, *, since: float, read: Callable[[], float]) -> Callable[[], datetime]:
    """A clock that showed `start` when `read` gave `since` and runs `speed` times as fast."""
    zero = start.timestamp()
    return lambda: datetime.fromtimestamp(zero + (read() - since) * speed, UTC)
