"""A worker inside another program: in the lifespan of a FastAPI app, or around the body of a script."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import TracebackType
from typing import Any

from duebox.destinations.registry import engine
from duebox.events.emit import ready_settings
from duebox.worker.connections import close_connections
from duebox.worker.worker import Worker

__all__ = ["Running", "running"]

logger = logging.getLogger("duebox.worker")

START_SECONDS = 2.0
SPARE_SECONDS = 5.0


def running(**options: Any) -> Running:
    """Run a worker in a thread of its own while a block lasts; takes the options of `Worker`.

        async with running():    # or: with running() as worker:
            yield

    Entering waits a moment for the worker to start. If the database is unavailable the worker retries, and the block
    begins without it. Leaving stops it as a signal would. An error that ended it is raised on entering or leaving.
    """
    return Running(options)


class Running:
    """The block of `running`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._shutdown_seconds = 0.0
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self.worker: Worker

    def __enter__(self) -> Worker:
        self._shutdown_seconds = ready_settings().SHUTDOWN_SECONDS
        self.worker = Worker(**self._options, lives_on=True)
        threading.Thread(target=self._work, name="duebox-worker", daemon=True).start()
        until = time.monotonic() + START_SECONDS
        while not self.worker.lease.id and time.monotonic() < until and not self._ended.wait(0.01):
            pass
        self._surface()
        return self.worker

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.worker.stop()
        if not self._ended.wait(self._shutdown_seconds + SPARE_SECONDS):
            logger.error("the background worker did not stop; its lease runs out by itself")
        if error is None:  # otherwise that error is already being raised
            self._surface()

    async def __aenter__(self) -> Worker:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def _work(self) -> None:
        try:
            with engine():
                self.worker.run()
        except BaseException as error:
            self._error = error
            logger.exception("the background worker ended")
        finally:
            close_connections()
            self._ended.set()

    def _surface(self) -> None:
        if self._error is not None:
            raise self._error
