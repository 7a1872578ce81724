"""How much there is to do: counted from indexes and up to a limit, so that a crowd costs no more than a few."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duebox.store.statements import run
from duebox.subscribers import OUTSIDE, is_known

MOST = 10_000
"""So many are counted; after that it matters little how many more there are."""
NAMES = 1_000
"""So many destinations, with their endpoints, are looked at."""


class Backlog(NamedTuple):
    """What is stored for one handler or destination and not delivered yet."""

    subscriber: str
    due: int
    running: int
    retrying: int
    later: int
    """To come without having failed: snoozed, delayed, or spread by a rate."""
    oldest: datetime | None
    more_due: bool
    more_later: bool
    held_back: bool
    """A destination that is paused, or left alone because it failed."""

    @property
    def orphaned(self) -> bool:
        """Nobody in this code is called that."""
        return not is_known(self.subscriber)


class Counts(NamedTuple):
    waiting: int
    dead: int
    parked: int
    minute: int
    hour: int
    day: int
    overdue: int
    oldest_overdue: float | None
    workers: int
    listening: int
    now: datetime


class Orphaned(NamedTuple):
    """Deliveries for a handler or destination that this code does not have."""

    subscriber: str
    deliveries: int
    more: bool
    since: datetime
    """When the oldest of them became due, or will."""


def backlog(using: str, *, most: int = MOST) -> list[Backlog]:
    params = {"most": most + 1, "names": NAMES, "now": None}
    return [Backlog(*row) for row in run("delivery_backlog", using, params)]


def counts(using: str, *, late: float, most: int = MOST) -> Counts:
    [row] = run("status_counts", using, {"most": most + 1, "late": late, "now": None})
    return Counts(*row)


def orphaned(found: list[Backlog]) -> list[Orphaned]:
    """Those of a backlog that nobody here will take; of a destination with all its endpoints. What a worker runs right
    now is known to that worker."""
    known: dict[str, Orphaned] = {}
    for each in found:
        waiting, more = each.due + each.retrying + each.later, each.more_due or each.more_later
        if not each.orphaned or not waiting or each.oldest is None:
            continue
        name = each.subscriber.partition("/")[0] if each.subscriber.startswith(OUTSIDE) else each.subscriber
        before = known.get(name, Orphaned(name, 0, False, each.oldest))
        known[name] = Orphaned(name, before.deliveries + waiting, before.more or more, min(before.since, each.oldest))
    return list(known.values())
