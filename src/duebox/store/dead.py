"""Dead letters: find them, tell their story, make them due again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duebox.models import Attempt, Delivery, Event
from duebox.models.delivery import DeliveryQuerySet
from duebox.store.statements import run


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: int
    event_id: str
    event_type: str
    subscriber: str
    data: dict[str, Any]
    died_at: datetime
    error: str

    @property
    def error_line(self) -> str:
        """The last line of the traceback, which says what happened."""
        return self.error.strip().splitlines()[-1] if self.error.strip() else ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "subscriber": self.subscriber,
            "data": self.data,
            "died_at": self.died_at.isoformat(),
            "error": self.error_line,
        }

    def history(self, using: str) -> list[dict[str, Any]]:
        attempts = Attempt.objects.using(using).filter(event_id=self.event_id, delivery_id=self.id).order_by("id")
        return [
            {
                "number": each.number,
                "outcome": each.outcome,
                "settled_at": each.settled_at.isoformat(),
                "note": each.note,
            }
            for each in attempts
        ]


def find(
    using: str,
    *,
    ids: Sequence[int] = (),
    type: str | None = None,
    subscriber: str | None = None,
    limit: int | None = None,
) -> list[DeadLetter]:
    rows = list(_matching(using, ids, type, subscriber).order_by("id")[:limit])
    event_ids = [row.event_id for row in rows]
    events = Event.objects.using(using).in_bulk(event_ids)
    deaths = Attempt.objects.using(using).filter(event_id__in=event_ids, outcome="dead").order_by("id")
    last = {death.delivery_id: death for death in deaths}
    return [
        DeadLetter(
            id=row.id,
            event_id=str(row.event_id),
            event_type=events[row.event_id].type if row.event_id in events else "(gone)",
            subscriber=row.subscriber,
            data=events[row.event_id].data if row.event_id in events else {},
            died_at=last[row.id].settled_at if row.id in last else row.due_at,
            error=last[row.id].note if row.id in last else "",
        )
        for row in rows
    ]


def count(using: str, *, type: str | None = None, subscriber: str | None = None) -> int:
    return _matching(using, (), type, subscriber).count()


def redrive(using: str, ids: Sequence[int], *, note: str) -> list[int]:
    """Due again at once, with a fresh set of retries; the attempts of before stay in the history."""
    return [row[0] for row in run("redrive", using, {"id": list(ids), "note": note, "now": None})]


def _matching(using: str, ids: Sequence[int], type: str | None, subscriber: str | None) -> DeliveryQuerySet:
    rows = Delivery.objects.using(using).dead()
    if ids:
        rows = rows.filter(id__in=ids)
    if subscriber:
        rows = rows.filter(subscriber=subscriber)
    if type:
        rows = rows.filter(event_id__in=Event.objects.using(using).filter(type=type).values("id"))
    return rows
