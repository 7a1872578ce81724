"""Which time it is for Duebox: the database's own, unless a test or a time lapse has put another clock in its place.

Statements take this clock's reading as `now`; without one they read the database's clock. Leases and heartbeats never
do: a worker is alive in real time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

_reading: Callable[[], datetime] | None = None
_speed = 1.0


def override() -> datetime | None:
    """The reading that stands in for the database's clock, or None when that clock is to be read."""
    return _reading() if _reading is not None else None


def now() -> datetime:
    """The time for everything decided in Python."""
    return _reading() if _reading is not None else datetime.now(UTC)


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
