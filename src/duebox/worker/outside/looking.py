"""Which destinations have something to deliver."""

from __future__ import annotations

import time

from duebox.store import outside
from duebox.store.outside import Ready

SLICE = 500


class Looking:
    """Asks the database each time, unless there are so many that the answer is worth several rounds: for 20,000
    endpoints with something to deliver the question alone takes a quarter of a second."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._found: list[Ready] = []
        self._next = 0
        self._asked_at = 0.0

    def names(self) -> list[Ready]:
        """The next of them."""
        if not self.more:
            self._asked_at = time.monotonic()
            self._found, self._next = outside.ready(self._using), 0
        some = self._found[self._next : self._next + SLICE]
        self._next += SLICE
        passed = time.monotonic() - self._asked_at
        return [_after(passed, each) for each in some] if self._next > SLICE else some

    @property
    def more(self) -> bool:
        """Whether some have not had their turn yet."""
        return self._next < len(self._found)

    def everybody(self) -> set[str]:
        return {each.name for each in self._found}


def _after(seconds: float, each: Ready) -> Ready:
    opens_in = None if each.opens_in is None else each.opens_in - seconds
    return each._replace(due_in=each.due_in - seconds, opens_in=opens_in)
