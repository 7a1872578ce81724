"""The history: attempts after an id, and the numbers of the last day."""

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
    """The due time of the schedule that fired the event."""
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
"""If there are more attempts in a day, a sample of this size is read."""
MOST = 10_000


class Day(NamedTuple):
    """The last 24 hours. On a busy day all numbers but `failed` are estimates."""

    scheduled: int
    """Schedules that will fire, at any time."""
    completed: int
    """Deliveries that succeeded."""
    failed: int
    """Deliveries that became dead letters, and still are."""
    processing_seconds: float
    """The mean from the due time to the settlement of a delivery that succeeded."""
    retried_percent: float
    """The percentage of deliveries that needed more than one attempt, of those that succeeded or died."""


def day(using: str) -> Day:
    [row] = run("day_numbers", using, {"sample": SAMPLE, "most": MOST, "now": None})
    return Day(*row)
