"""A call that knows no timeout, with an end: the system's resolver waits for half a minute if it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """What the call gives or raises; TimeoutError if that takes longer. A thread of its own each time: one that hangs
    must not be waited for by the next."""
    ended: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            ended.put((call(), None))
        except BaseException as error:
            ended.put((None, error))

    threading.Thread(target=run, name="duebox-resolver", daemon=True).start()
    try:
        value, error = ended.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
