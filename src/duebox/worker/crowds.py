"""A busy stream must not hold up the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from duebox.store.crowds import Stream, set_aside
from duebox.store.deliveries import promote

SHARE = 8
CHUNK = 500
LONGEST_SECONDS = 5.0


class Crowds:
    """The streams of which a claim has met little but what must wait.

    A claim parks those that stand behind another, and meets the next of them right after: behind 100,000 events of two
    streams all others had to wait for 3.5 s. So claims pass such a stream over while the rest of it is parked, some at
    a time.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._after: dict[Stream, int] = {}
        self._until: dict[Stream, float] = {}

    def __bool__(self) -> bool:
        return bool(self._after)

    @property
    def streams(self) -> list[str]:
        """What claims pass over. It is by the name of the stream alone, to keep the walk of a claim cheap; for other
        subscribers with the same stream that means a moment of delay."""
        return [stream for _, stream in self._after]

    def see(self, parked: Counter[Stream], room: Callable[[str], int]) -> bool:
        """What a claim has parked, and how many it was for. True when a stream is open again."""
        if parked:
            promote(self._using, parked)
        for stream, count in parked.items():
            if count * SHARE >= room(stream[0]):
                self._after.setdefault(stream, 0)
                self._until.setdefault(stream, time.monotonic() + LONGEST_SECONDS)
        return bool(self._after) and self._park_some()

    def _park_some(self) -> bool:
        found = set_aside(self._using, self._after, CHUNK)
        promote(self._using, self._after)
        self._after.update({stream: aside.last for stream, aside in found.items()})
        # Where more comes than can be parked, the head must have its turn all the same.
        late = time.monotonic()
        most = {stream for stream, aside in found.items() if aside.many == CHUNK and late < self._until[stream]}
        open_again = set(self._after) - most
        for stream in open_again:
            del self._after[stream], self._until[stream]
        return bool(open_again)
