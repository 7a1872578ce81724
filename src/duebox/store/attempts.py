"""The history as it grows: attempts behind a cursor, and the numbers of the last day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from duebox.store.run_sql import number_array, run


class Seen(NamedTuple):
    """One line of the history with its event, in the order of attempts_after.sql."""

    id: int
    event_id: str
    type: str
    aggregate_type: str
    aggregate_id: str
    correlation_id: str
    causation_id: str | None
    scheduled_for: str | None
    """When the schedule that fired the event meant it to happen."""
    delivery_id: int
    subscriber: str
    number: int
    outcome: str
    due_at: datetime
    started_at: datetime | None
    settled_at: datetime
    took_ms: float | None
    note: str
    status: int | None
    next_due_at: datetime | None
    """When the delivery is due again, if it is still stored."""


def last(using: str) -> int:
    [(id,)] = run("attempts_last", using, {})
    return int(id)


def after(using: str, id: int, *, missing: Iterable[int] = (), limit: int) -> list[Seen]:
    params = {"after": id, "missing": number_array(missing), "limit": limit}
    return [Seen(*row) for row in run("attempts_after", using, params)]


SAMPLE = 2_000
"""Of more attempts than this in a day, so many are looked at."""
MOST = 10_000


class Day(NamedTuple):
    """The last 24 hours. Of a busy day all but `failed` are estimates."""

    scheduled: int
    """Schedules that are to fire, whenever."""
    completed: int
    """Deliveries that succeeded."""
    failed: int
    """Deliveries that became dead letters, and still are."""
    processing_seconds: float
    """The mean from the due time to the settlement of a delivery that succeeded."""
    retried_percent: float
    """Of those that succeeded or died: how many of a hundred needed more than one attempt."""


def day(using: str) -> Day:
    [row] = run("day_numbers", using, {"sample": SAMPLE, "most": MOST, "now": None})
    return Day(*row)
