"""How the threads of a worker wake each other."""

from __future__ import annotations

import threading
from contextlib import suppress

from duebox.store.row_changes import CHANGES
from duebox.store.schedules import DUE_NOW, SCHEDULES


class Wakeup:
    """The signals between the threads of one worker. All of them have it; it knows none of them.

    The loop sleeps in `wait` and then takes the flags that say what to do. Every other thread that sleeps has an event
    of its own.
    """

    def __init__(self, *, until_idle: bool = False) -> None:
        self.sender = threading.Event()
        self.limited_handlers = threading.Event()
        self.row_changes = threading.Event()
        self.wants_room = False
        """Set by the loop while there was no room for all that it could have claimed."""
        self.loop_session = 0
        """The database session of the loop."""
        self._until_idle = until_idle
        self._claim = self._look = self._rewind = False
        self._no_wake_yet = threading.Lock()
        self._no_wake_yet.acquire()

    def notified(self, what: str | None = None, session: int = 0) -> None:
        """A NOTIFY arrived: what it says, and which session sent it. Without arguments: something may be new."""
        if what in (None, CHANGES):
            self.row_changes.set()
        if what == CHANGES:
            return  # the schedules that are planned for the changes send a NOTIFY of their own
        self.sender.set()
        self.limited_handlers.set()
        if session and session == self.loop_session:
            return  # the loop fired a schedule and goes on to claim its deliveries
        if what != SCHEDULES:
            self._claim = True
        if what != DUE_NOW:
            self._look = True
        self.wake()

    def claim(self, *, look: bool = False) -> None:
        """There may be deliveries to claim; with `look` one is due later, at a time that the loop does not know."""
        self.limited_handlers.set()
        self._call_loop(look=look)

    def streams_moved_on(self) -> None:
        """The next delivery of a stream is due. It may be older than what was claimed last."""
        self._rewind = True
        self.claim()

    def thread_is_free(self) -> None:
        """That matters only if there was no room for all that could be claimed, or if the worker ends when it is idle.
        With 200 schedules a second it would be every other turn of the loop."""
        if self.wants_room or self._until_idle:
            self._call_loop()

    def _call_loop(self, *, look: bool = False) -> None:
        self._claim = True
        if look:
            self._look = True
        self.wake()

    def wake(self) -> None:
        """End the sleep of the loop. Safe in a signal handler, whatever the thread that it interrupts is doing. That is
        not so for an `Event`: a thread that waits for one holds its lock for a moment, and the handler would wait for
        the very thread that it interrupts. `SimpleQueue.get` may not be used with a timeout either: if the time is over
        before it begins to wait, which happens on a busy machine, it waits for ever."""
        with suppress(RuntimeError):  # it was woken before, and is not locked
            self._no_wake_yet.release()

    def wait(self, seconds: float) -> bool:
        """Sleep until `wake` is called. True if it was called in this time, or since the last wait."""
        return self._no_wake_yet.acquire(timeout=max(0.0, seconds))

    # A flag is cleared before it is acted on, and only if it is set: a signal that arrives meanwhile is not lost.

    def take_claim(self) -> bool:
        if not self._claim:
            return False
        self._claim = False
        return True

    def take_look(self) -> bool:
        if not self._look:
            return False
        self._look = False
        return True

    def take_rewind(self) -> bool:
        if not self._rewind:
            return False
        self._rewind = False
        return True
