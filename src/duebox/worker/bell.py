"""What wakes the worker's loop."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Bell:
    """May be rung by a signal handler, whatever the thread that it interrupts is doing. An `Event` may not: who waits
    holds its lock for a moment, and a handler that wants it then waits for the very thread that it interrupts."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether it rang within this time, or since somebody waited last."""
        try:
            self._rings.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        return True
