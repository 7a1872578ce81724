from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from duebox.outcome import Dead, Delivered, Discard, Expired, Retried, Snooze
from duebox.store.deliveries import Ended

_WORDS = {
    type(None): "delivered",
    Delivered: "delivered",
    Discard: "discarded",
    Expired: "expired",
    Snooze: "snoozed",
    Retried: "retried",
    Dead: "dead",
}


_one_at_a_time = threading.Lock()


class Tally:
    """What a worker has done so far."""

    def __init__(self) -> None:
        self.delivered = self.discarded = self.expired = self.snoozed = self.retried = self.dead = self.lost = 0

    def add(self, ended: Iterable[Ended]) -> None:
        counts = Counter(type(end.outcome) for end in ended)
        with _one_at_a_time:
            for kind, count in counts.items():
                setattr(self, _WORDS[kind], getattr(self, _WORDS[kind]) + count)

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))

    def __str__(self) -> str:
        return ", ".join(f"{word} {count:,}" for word, count in vars(self).items() if count) or "nothing to do"
