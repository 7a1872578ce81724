"""The clock of a worker: the database's, which every heartbeat reads."""

from __future__ import annotations

from duebox import clock


class Clock(clock.DatabaseClock):
    """The clock of the database that this worker serves."""

    __slots__ = ()

    def reading(self) -> float:
        """Like `now`, but on the clock that stands in for the database's, if one does: not for measuring how long."""
        moved = clock.override()
        return self.now() if moved is None else moved.timestamp()

    def set(self, database_now: float, asked_at: float) -> None:
        super().set(database_now, asked_at)
        clock.database.set(database_now, asked_at)
