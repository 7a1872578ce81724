"""Rows of the history with times of the test's choice, written as the engine writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from duebox.models import Attempt, Event, ScheduleLog

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def at(minutes: float = 0, seconds: float = 0) -> datetime:
    return NOON + timedelta(minutes=minutes, seconds=seconds)


def event(moment: datetime, type: str = "order.paid", **options: Any) -> Event:
    """An event that was emitted at this moment, as its id says."""
    id = UUID(int=(int(moment.timestamp() * 1000) << 80) | 7 << 76 | 2 << 62 | (uuid4().int & (1 << 60) - 1))
    return Event.objects.create(id=id, type=type, occurred_at=moment, recorded_at=moment, **options)


def fired(moment: datetime, type: str = "visit.reminded", late_seconds: float = 0.0) -> Event:
    due = moment - timedelta(seconds=late_seconds)
    return event(moment, type, metadata={"schedule": {"key": "k", "occurrence": "o", "due": due.isoformat()}})


def attempt(
    settled: datetime,
    subscriber: str = "shop.bill",
    outcome: str = "delivered",
    *,
    number: int = 1,
    late_ms: float | None = 3.0,
    took_ms: float = 100.0,
) -> Attempt:
    """`late_ms=None`: it did not run, a person or the engine ended it."""
    started = None if late_ms is None else settled - timedelta(milliseconds=took_ms)
    return Attempt.objects.create(
        event_id=uuid4(), delivery_id=1, subscriber=subscriber, number=number, outcome=outcome, settled_at=settled,
        due_at=settled if started is None else started - timedelta(milliseconds=late_ms or 0), started_at=started,
        took_ms=None if started is None else took_ms,
    )  # fmt: skip


def logged(moment: datetime, what: str = "missed", occurrences: int = 1) -> ScheduleLog:
    return ScheduleLog.objects.create(at=moment, what=what, source="k", occurrences=occurrences)
