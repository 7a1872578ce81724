"""How fast a crowd comes back: so many a second become due, however quickly their rows are written."""

from __future__ import annotations

import time


class Pace:
    """`rate` deliveries a second, from now on; None is all at once. Nobody sleeps: the moments are written down."""

    def __init__(self, rate: float | None = None) -> None:
        self._step = 1 / rate if rate else 0.0
        self._done = 0
        self._started = time.monotonic()

    def params(self) -> dict[str, float]:
        """For the next statement: seconds until its first is due, and from one to the next."""
        return {"delay": self._done * self._step - (time.monotonic() - self._started), "step": self._step}

    def took(self, many: int) -> None:
        self._done += many
