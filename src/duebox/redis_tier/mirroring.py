"""Keeps the mirror of schedules up to date, in a thread of a worker."""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, connections

from duebox.redis_tier.connection import Errors, errors
from duebox.redis_tier.mirror import CHUNK, rebuild_if_due, refresh_changed

logger = logging.getLogger("duebox.redis")

LOOK_SECONDS = 1.0
AWAY_SECONDS = 10.0
LEAVING_SECONDS = 2.0


class _Stopped(Exception):
    """In the middle of building."""


class Mirroring:
    """Of several workers each does some of it. One builds the mirror, and follows changes meanwhile."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._taken: set[str] = set()
        """Named by Redis, and not yet looked up."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work_until_stopped, name="duebox-mirror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for a look-up that is under way, so that it gives its lock back: others would wait for that as
        long as the lock lasts."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LEAVING_SECONDS)

    def _work_until_stopped(self) -> None:
        away = False
        trouble: Errors = (*errors(), DatabaseError)
        while not self._stopping.is_set():
            try:
                self._work()
            except _Stopped:
                return
            except trouble as error:
                if not away:
                    logger.warning("the mirror of schedules is not kept up: %s", error or type(error).__name__)
                away = True
                self._stopping.wait(AWAY_SECONDS)
            finally:
                connections[self._using].close()

    def _work(self) -> None:
        while not self._stopping.is_set():
            count = rebuild_if_due(self._using, between=self._between)
            if count is not None:
                logger.info("the mirror holds %d schedules", count)
            while refresh_changed(self._using, self._taken) >= CHUNK and not self._stopping.is_set():
                pass
            self._stopping.wait(LOOK_SECONDS)

    def _between(self) -> None:
        if self._stopping.is_set():
            raise _Stopped
        refresh_changed(self._using, self._taken)
