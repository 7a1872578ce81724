from __future__ import annotations

import time

FLOOR_SECONDS = 1.0


class Floor:
    """How far the due index was consumed already.

    While an old snapshot is held elsewhere, dead index entries pile up at the low end and every claim from the
    bottom reads them all (43,000 → 9,000 events/s). Late commits land below the floor, so it is left now and then.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self._since = 0.0

    def rewind(self) -> None:
        """Something old became due again: the next of a stream."""
        self.value = 0.0

    def move(self, last_due: float | None) -> None:
        now = time.monotonic()
        if last_due is None or now - self._since > FLOOR_SECONDS:
            self.value, self._since = 0.0, now
        else:
            self.value = last_due
