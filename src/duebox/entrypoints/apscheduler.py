"""Deliveries as a job of APScheduler, or of any scheduler that calls a function in a thread."""

from __future__ import annotations

from typing import Any

from duebox.destinations.engines import ended, engine
from duebox.emit import ready_settings
from duebox.worker.loop import Worker
from duebox.worker.tally import Tally
from duebox.worker.tidy import close_connections


class Rounds:
    """Called, it does what `duebox once` does: fire and deliver until nothing is due. Takes the options of `Worker`.

        deliver = Rounds(threads=2)
        scheduler.add_job(deliver, "interval", seconds=5, max_instances=1, coalesce=True)

    `duebox once` itself cannot be such a job: it listens for signals, which only a main thread may do. So the program
    that hears the signal says `stop()`, and then waits for the job as it would for any other.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._stopping = False
        self._under_way: set[Worker] = set()

    def __call__(self) -> Tally:
        ready_settings()
        worker = Worker(**self._options, until_idle=True, lives_on=True)
        self._under_way.add(worker)
        if self._stopping:  # looked at after the worker can be found: whichever comes second sees the other
            worker.stop()
        try:
            with engine(ends_for_good=lambda: self._stopping):
                worker.run()
        finally:
            self._under_way.discard(worker)
            close_connections()
        return worker.crew.tally

    def stop(self) -> None:
        """For good: what runs gets `SHUTDOWN_SECONDS` to end, what did not start is given back, no round begins.
        Connections of destinations are closed, once nobody here uses them."""
        self._stopping = True
        for worker in list(self._under_way):
            worker.stop()
        ended()
