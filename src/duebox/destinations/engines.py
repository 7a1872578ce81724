"""Engines of this process: destinations are shared by them, so the last one to end lets go of the connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duebox.destinations.configured import close_all

# Reentrant: a program may end an engine from the handler of a signal, which interrupts whatever it does.
_one_at_a_time = threading.RLock()
_under_way: list[object] = []
_ended: list[object] = []


@contextmanager
def engine(ends_for_good: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """While an engine delivers. Where it does not end for good it comes back for its connections; they stay open."""
    me = object()
    with _one_at_a_time:  # nobody takes a destination that is just being closed
        _under_way.append(me)
    try:
        yield
    finally:
        with _one_at_a_time:
            _under_way.remove(me)
            if ends_for_good():
                _ended.append(me)
            if _ended and not _under_way:
                _ended.clear()
                close_all()


def ended() -> None:
    """An engine that was not under way has ended for good."""
    with engine():
        pass
