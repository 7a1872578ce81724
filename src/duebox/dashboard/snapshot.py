"""One answer for all viewers: what is asked again within a second is answered from memory.

However many people look at the dashboard, each process of the project asks the database once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from duebox.store.run_sql import TooSlow, statement_timeout

T = TypeVar("T")
SECONDS = 1.0
STATEMENT_SECONDS = 1.0
"""Less than a page has: a part of it that is too slow leaves time for the others."""


_all: list[Snapshot[Any]] = []


class Snapshot(Generic[T]):
    """The last answer of a function of a database alias; None where the database was too slow. While one thread asks,
    the others wait for its answer. What else is passed to `get` is passed on when it asks."""

    def __init__(self, ask: Callable[..., T], seconds: float = SECONDS) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, T | None]] = {}
        _all.append(self)

    def get(self, using: str, *given: Any) -> T | None:
        with self._lock:
            found = self._answers.get(using)
            if found is None or time.monotonic() - found[0] >= self._seconds:
                answer = self._asked(using, *given)
                found = self._answers[using] = (time.monotonic(), answer)  # its lifetime begins when it is there
            return found[1]

    def _asked(self, using: str, *given: Any) -> T | None:
        try:
            with statement_timeout(using, STATEMENT_SECONDS):
                return self._ask(using, *given)
        except TooSlow:
            return None

    def forget(self) -> None:
        with self._lock:
            self._answers.clear()


def forget_all() -> None:
    """After an action, so that the person who did it sees what it changed."""
    for each in _all:
        each.forget()
