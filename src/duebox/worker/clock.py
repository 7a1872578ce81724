"""The database's clock, read without asking the database each time."""

from __future__ import annotations

import time

from duebox import clock


class Clock:
    """Monotonic time of this process plus the last known offset to the database."""

    __slots__ = ("_offset", "_quickest")

    def __init__(self) -> None:
        self._offset = time.time() - time.perf_counter()
        self._quickest = float("inf")

    def now(self) -> float:
        """Seconds since 1970 on the database's clock."""
        return time.perf_counter() + self._offset

    def reading(self) -> float:
        """The same, on the clock that stands in for the database's, if one does: not for measuring how long."""
        moved = clock.override()
        return self.now() if moved is None else moved.timestamp()

    def set(self, database_now: float, asked_at: float) -> None:
        """`asked_at` is the perf_counter before the question. The quicker the answer, the better the guess; an old
        quick one loses its weight, since clocks drift."""
        trip = time.perf_counter() - asked_at
        self._quickest *= 1.1
        if trip <= self._quickest:
            self._quickest = trip
            self._offset = database_now - asked_at - trip / 2
