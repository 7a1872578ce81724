"""Reads what the clinic sent when a moment had come, and what the clock passed over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

# A task has no moment of its own: the sweep had one, and the task's event is caused by it.
_SENT = """
    SELECT 'm' || message.id, event.type, event.aggregate_type || ':' || event.aggregate_id,
           coalesce(event.metadata #>> '{schedule,due}', sweep.metadata #>> '{schedule,due}')::timestamptz,
           message.sent_at, message.zone, coalesce(event.metadata #>> '{schedule,marks,0}', ''),
           message.recipient || ': ' || message.text
    FROM clinic_message message
    JOIN duebox_event event ON event.id = message.event_id
    LEFT JOIN duebox_event sweep ON sweep.id = event.causation_id
"""
_PASSED_OVER = """
    SELECT 't' || entry.id, schedule.type, entry.aggregate_type || ':' || entry.aggregate_id, entry.due_before, NULL,
           schedule.zone, entry.what, schedule.data ->> 'name'
    FROM duebox_schedule_log entry JOIN duebox_schedule schedule ON schedule.key = entry.source
    WHERE entry.what IN ('skipped', 'missed') AND entry.due_before <= entry.at AND schedule.plan LIKE 'clinic.%'
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """A message that was sent, or a moment that was passed over and has no `sent_at`."""

    id: str
    type: str
    about: str
    due: datetime
    sent_at: datetime | None
    zone: str
    mark: str
    text: str

    @property
    def late(self) -> timedelta | None:
        return self.sent_at - self.due if self.sent_at else None


class Sights:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def new(self) -> list[Sight]:
        """What was not there before, in the order in which it was due."""
        with connection.cursor() as cursor:
            cursor.execute(f"{_SENT} UNION ALL {_PASSED_OVER}")
            found = [Sight(*row) for row in cursor.fetchall() if row[0] not in self._seen]
        self._seen |= {sight.id for sight in found}
        return sorted(found, key=lambda sight: sight.due)


def still_due(end: datetime) -> int:
    """Schedules and deliveries that should have happened by then."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM duebox_schedule WHERE status = 'scheduled' AND due_at <= %(end)s)"
            " + (SELECT count(*) FROM duebox_delivery WHERE due_at <= %(end)s)",
            {"end": end},
        )
        return int(cursor.fetchone()[0])
