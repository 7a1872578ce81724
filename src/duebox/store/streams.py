"""Streams that do not move, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from duebox.store.statements import run

COUNTED = 1_000
"""So many that stand behind a head are counted: after that it matters little how many more."""
LOOKED_AT = 1_000
"""So many of the dead, of the parked, and of heads that others wait behind are compared, if there are more."""


class Blocked(NamedTuple):
    """A stream whose first delivery is dead, parked, or waits for its next try."""

    subscriber: str
    stream: str
    head: int
    event_id: str
    status: str
    attempt: int
    due_at: datetime
    waiting: int
    """How many stand behind it, up to `COUNTED`."""
    since: datetime
    more_wait: bool = False
    """Whether there are more than that."""

    @property
    def why(self) -> str:
        """`dead`, `parked`, `retrying`, or `snoozed` where it comes later without having failed."""
        if self.status != "pending":
            return self.status
        return "retrying" if self.attempt else "snoozed"

    def as_dict(self) -> dict[str, Any]:
        return {
            "subscriber": self.subscriber,
            "stream": self.stream,
            "head": self.head,
            "event_id": self.event_id,
            "why": self.why,
            "until": self.due_at.isoformat() if self.status == "pending" else None,
            "waiting": self.waiting,
            "more_wait": self.more_wait,
            "since": self.since.isoformat(),
        }


def blocked(using: str, *, subscriber: str | None = None, limit: int = 50) -> list[Blocked]:
    """Those with the most behind them first."""
    params = {"subscriber": subscriber, "limit": limit, "look": max(limit, LOOKED_AT), "most": COUNTED + 1, "now": None}
    found = [Blocked(*row) for row in run("dead_streams", using, params)]
    return [each._replace(waiting=min(each.waiting, COUNTED), more_wait=each.waiting > COUNTED) for each in found]
