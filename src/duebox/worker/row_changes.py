"""One thread per worker that plans rows whose changes were noted by triggers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError

from duebox.conf import conf
from duebox.plans import plans
from duebox.row_changes import plan_changes
from duebox.worker.sessions import own_connection
from duebox.worker.tidy import close_connections, tidy_connections
from duebox.worker.watchdog import Watchdog

logger = logging.getLogger("duebox.worker")

POLL_SECONDS = 1.0
"""How often to look where no NOTIFY arrives: behind a pooler, and while the worker is so busy that none is sent."""
STOP_SECONDS = 2.0


class RowChanges:
    """Beside the loop: a bulk update of 100,000 rows must make no schedule late."""

    def __init__(self, using: str, watchdog: Watchdog, done: Callable[[], None]) -> None:
        self._using = using
        self._watchdog = watchdog
        self._done = done
        """Called when nothing is left to plan."""
        self._is_done = not (plans() and conf().CAPTURE)
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="duebox-row-changes", daemon=True)

    def start(self) -> None:
        if not self._is_done:
            self._thread.start()

    def is_done(self) -> bool:
        """Whether there was nothing left to plan at the last look."""
        return self._is_done

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with own_connection(self._using, self._watchdog, "row-changes"):
            while not self._stopping:
                try:
                    tidy_connections()
                    if count := plan_changes(self._using, until=self._is_stopping):
                        logger.debug("row changes planned: count=%d", count)
                    if not self._is_done:
                        self._is_done = True
                        self._done()
                except (DatabaseError, InterfaceError) as error:
                    close_connections()
                    logger.warning("row changes not planned, next try in 1 s: %s", str(error).strip())
                    self._pause()
                except Exception:
                    logger.exception("row changes not planned, next try in 1 s")
                    self._pause()
                self._wake.wait(POLL_SECONDS)
                self._wake.clear()

    def _pause(self) -> None:
        """A NOTIFY does not shorten it. A run that ends when all is done does not wait for what fails."""
        self._is_done = True
        self._done()
        until = time.monotonic() + POLL_SECONDS
        while not self._stopping and time.monotonic() < until:
            time.sleep(0.05)

    def _is_stopping(self) -> bool:
        return self._stopping
