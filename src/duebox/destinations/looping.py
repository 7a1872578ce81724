"""An event loop on a thread of its own, for drivers that are asyncio only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Started by the first call of `run`, which any thread may make."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """What the coroutine gives; TimeoutError if it does not end in time."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def stop(self, last: Coroutine[Any, Any, None], timeout: float = 5.0) -> None:
        """Run the last words and end the thread; nothing happens where it never started."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(_end(last), loop).result(timeout)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


async def _end(last: Coroutine[Any, Any, None]) -> None:
    """The last words, and then nothing is left that would wake up in a closed loop."""
    try:
        await last
    finally:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
