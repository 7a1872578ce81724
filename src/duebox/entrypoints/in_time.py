"""Deliver what is due, and be done before the time is over: for functions that are stopped without a word."""

from __future__ import annotations

import threading

from duebox.worker.loop import Worker
from duebox.worker.tidy import close_connections

GRACE_SHARE = 0.5
SPARE_SECONDS = 1.0
SPARE_SHARE = 0.1


def deliver_in_time(seconds: float, *, using: str | None = None, grace: float | None = None) -> dict[str, int]:
    """Counts by outcome. Handlers that run at the end get `grace`, or as much of `seconds` as SHUTDOWN_SECONDS says.

    Atomic ones that take longer are undone and given back, for the next one; no attempt is used up. The others end in
    their own time."""
    worker = _InTime(seconds, using, grace)
    timer = threading.Timer(worker.working_seconds, worker.stop)
    timer.daemon = True
    timer.start()
    try:
        worker.run()
    finally:
        timer.cancel()
        close_connections()  # a function that is frozen must not hold one
    return worker.crew.tally.as_dict()


class _InTime(Worker):
    """A worker that waits for running handlers no longer than there is time."""

    def __init__(self, seconds: float, using: str | None, grace: float | None) -> None:
        super().__init__(using=using, until_idle=True, lives_on=True)
        if grace is not None:
            self._shutdown_seconds, self.working_seconds = grace, seconds
            return
        self._shutdown_seconds = min(self._shutdown_seconds, seconds * GRACE_SHARE)
        spare = min(SPARE_SECONDS, seconds * SPARE_SHARE)
        self.working_seconds = max(0.0, seconds - self._shutdown_seconds - spare)
