"""Each attempt as it happens: its event, who handled it, how late it was, and how it ended.

It reads the history by its ids, from the last one that it has seen, and nothing that a worker claims or locks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duebox.conf import conf
from duebox.dead_letters.fingerprint import telling_line
from duebox.events.wildcards import fits
from duebox.store import attempts
from duebox.store.attempts import Seen

__all__ = ["Seen", "Sight", "Watch", "latest", "watch"]

BATCH = 1_000
INTERVAL_SECONDS = 0.2
MISSING_SECONDS = 30.0
"""How long a missing id is looked for: ids are assigned before the commit, so that a lower one may appear
after a higher one. An id that was rolled back never appears."""
MOST_MISSING = 5_000


@dataclass(frozen=True, slots=True)
class Sight:
    """One attempt that was seen."""

    row: Seen

    @property
    def about(self) -> str:
        return f"{self.row.aggregate_type}:{self.row.aggregate_id}" if self.row.aggregate_type else ""

    @property
    def late_seconds(self) -> float | None:
        """From when it was due until the handler started; the first attempt of what a schedule fired was due by the
        schedule."""
        row = self.row
        if row.started_at is None:
            return None
        due = row.due_at
        if row.scheduled_for and row.number == 1:
            due = datetime.fromisoformat(row.scheduled_for)
        return max(0.0, (row.started_at - due).total_seconds())

    @property
    def wait_seconds(self) -> float | None:
        """Until the next attempt, where one follows."""
        if self.row.next_due_at is None or self.row.outcome not in ("retried", "snoozed"):
            return None
        return max(0.0, (self.row.next_due_at - self.row.settled_at).total_seconds())

    @property
    def error(self) -> str:
        """The line of the note that says what happened."""
        return telling_line(self.row.note, self.row.status)

    def as_dict(self) -> dict[str, Any]:
        row = self.row
        return {
            "id": row.id,
            "at": row.settled_at.isoformat(),
            "event_id": row.event_id,
            "type": row.type,
            "about": self.about or None,
            "correlation_id": row.correlation_id,
            "causation_id": row.causation_id,
            "delivery_id": row.delivery_id,
            "subscriber": row.subscriber,
            "attempt": row.number,
            "outcome": row.outcome,
            "due_at": row.due_at.isoformat(),
            "started_at": row.started_at.isoformat() if row.started_at else None,
            "late_seconds": self.late_seconds,
            "took_ms": row.took_ms,
            "wait_seconds": self.wait_seconds,
            "error": self.error,
        }


class Watch:
    """Reads new attempts. It begins at the end of the history, or after an id."""

    def __init__(self, *, after: int | None = None, using: str | None = None) -> None:
        self._using = using or conf().DATABASE
        self._last = attempts.last(self._using) if after is None else after
        self._missing: dict[int, float] = {}
        """Missing ids, with the time until which they are looked for."""

    def new(self) -> list[Sight]:
        """New attempts ordered by ids; at most a batch, the rest with the next call."""
        now = time.monotonic()
        self._missing = {id: until for id, until in self._missing.items() if until > now}
        found = attempts.after(self._using, self._last, missing=self._missing, limit=BATCH)
        for row in found:
            self._missing.pop(row.id, None)
            if row.id > self._last:
                passed = range(max(self._last + 1, row.id - MOST_MISSING), row.id)
                self._missing.update(dict.fromkeys(passed, now + MISSING_SECONDS))
                self._last = row.id
        if len(self._missing) > MOST_MISSING:
            self._missing = dict(sorted(self._missing.items())[-MOST_MISSING:])
        return [Sight(row) for row in found]


def latest(many: int, *, using: str | None = None) -> list[Sight]:
    """The last attempts, the newest first."""
    alias = using or conf().DATABASE
    end = attempts.last(alias)
    return [Sight(row) for row in attempts.after(alias, end - many, limit=many)][::-1]


def watch(
    *,
    type: str | None = None,
    handler: str | None = None,
    seconds: float | None = None,
    interval: float = INTERVAL_SECONDS,
    using: str | None = None,
) -> Iterator[Sight]:
    """Attempts as they happen, of event types and receivers that match these patterns, for `seconds` or until the
    caller stops."""
    watching = Watch(using=using)  # here, and not at the first look: what happens from now on is seen
    found = _follow(watching, seconds, interval)
    return (each for each in found if _matches(each.row.type, type) and _matches(each.row.subscriber, handler))


def _follow(watching: Watch, seconds: float | None, interval: float) -> Iterator[Sight]:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = float("inf") if deadline is None else deadline - time.monotonic()
        found = watching.new()
        yield from found
        if len(found) >= BATCH:
            continue  # there is more
        if left <= 0:
            return
        time.sleep(min(interval, left))


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or fits(name, pattern)
