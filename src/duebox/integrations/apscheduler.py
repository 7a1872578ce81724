"""Deliveries as a job of APScheduler, or of any scheduler that calls a function in a thread."""

from __future__ import annotations

from typing import Any

from duebox.destinations.registry import ended, engine
from duebox.events.emit import ready_settings
from duebox.worker.connections import close_connections
from duebox.worker.settle import OutcomeCounts
from duebox.worker.worker import Worker

__all__ = ["Rounds"]


class Rounds:
    """A callable that does what `duebox once` does: fire and deliver until nothing is due. Takes the options of
    `Worker`.

        deliver = Rounds(threads=2)
        scheduler.add_job(deliver, "interval", seconds=5, max_instances=1, coalesce=True)

    `duebox once` itself cannot be such a job: it handles signals, which only the main thread can do. So the program
    that receives the signal calls `stop()`, and then waits for the job as for any other.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._stopping = False
        self._under_way: set[Worker] = set()

    def __call__(self) -> OutcomeCounts:
        ready_settings()
        worker = Worker(**self._options, until_idle=True, lives_on=True)
        self._under_way.add(worker)
        if self._stopping:  # checked after the worker is set: of two threads, the second one sees the other's change
            worker.stop()
        try:
            with engine(ends_for_good=lambda: self._stopping):
                worker.run()
        finally:
            self._under_way.discard(worker)
            close_connections()
        return worker.outcome_counts

    def stop(self) -> None:
        """Stop for good: running handlers get `SHUTDOWN_SECONDS` to end, other claimed deliveries are released, no
        round begins. Connections of destinations are closed once nothing in this process uses them."""
        self._stopping = True
        for worker in list(self._under_way):
            worker.stop()
        ended()
