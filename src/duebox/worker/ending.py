"""How a worker ends: what was not started is given back, what runs may end, then nothing is left under its lease."""

from __future__ import annotations

import logging
import threading
import time

from django.db import DatabaseError, InterfaceError

from duebox.worker.crew import Crew
from duebox.worker.lease import Lease
from duebox.worker.outside import Outside
from duebox.worker.sessions import own_connection
from duebox.worker.watchdog import Watchdog

logger = logging.getLogger("duebox.worker")


class Ending:
    """`lives_on` says that the process does, so that a thread which is left behind goes on."""

    def __init__(
        self, lease: Lease, crew: Crew, outside: Outside | None, watchdog: Watchdog, *, lives_on: bool
    ) -> None:
        self._lease = lease
        self._crew = crew
        self._outside = outside
        self._watchdog = watchdog
        self._lives_on = lives_on
        self._began = time.monotonic()

    def shut_down(self, deadline: float) -> None:
        """Whatever happens meanwhile, the heartbeat ends, and with it the lease: in time, or by itself."""
        try:
            self._finish(deadline)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("stopped without the database: %s", str(error).strip())
        finally:
            if self._crew.is_at_work() or (self._outside and self._outside.is_at_work()):
                threading.Thread(target=self._see_off, name="duebox-last", daemon=True).start()
            else:
                self._end_lease()
        logger.info("stopped: %s seconds=%.1f", self._crew.tally, time.monotonic() - self._began)

    def _finish(self, deadline: float) -> None:
        try:
            if self._outside:
                self._outside.stop()
            self._crew.finish(deadline, lives_on=self._lives_on)
        finally:
            if self._outside:
                self._outside.finish(deadline, lives_on=self._lives_on)

    def _see_off(self) -> None:
        """What cannot be undone ends in its own time, under this lease, so that it runs nowhere else."""
        self._crew.join()
        if self._outside:
            self._outside.join()
        with own_connection(self._lease.using, self._watchdog, "last", engine=True):
            self._end_lease()

    def _end_lease(self) -> None:
        try:
            self._lease.stop()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the lease was not given back, it runs out by itself: %s", str(error).strip())
        finally:
            self._watchdog.stop()
