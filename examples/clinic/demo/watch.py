"""Reads the history that the worker writes, and tells what is new in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

# Ids are given out before commit, so a lower one may appear after a higher one; this far back is looked again.
LOOK_BACK = 500

_NEW_ATTEMPTS = """
    SELECT a.id, a.event_id, e.type, e.aggregate_type || ':' || e.aggregate_id, e.causation_id,
           pg_xact_commit_timestamp(e.xmin), a.delivery_id, a.subscriber, a.number, a.outcome,
           a.due_at, a.started_at, a.settled_at, a.note, d.due_at
    FROM duebox_attempt a
    JOIN duebox_event e ON e.id = a.event_id
    LEFT JOIN duebox_delivery d ON d.id = a.delivery_id
    WHERE a.id > %s AND a.id <> ALL (%s)
    ORDER BY 6, e.id, a.id
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """One line of the history, with the event it is about."""

    id: int
    event: UUID
    type: str
    about: str
    cause: UUID | None
    committed_at: datetime
    delivery: int
    handler: str
    number: int
    outcome: str
    due_at: datetime
    started_at: datetime | None
    settled_at: datetime
    note: str
    next_due_at: datetime | None

    @property
    def late_ms(self) -> float | None:
        """From the commit, or for a later attempt from when it was due, until the handler started."""
        if self.started_at is None:
            return None
        return max(0.0, (self.started_at - max(self.committed_at, self.due_at)).total_seconds() * 1000)

    @property
    def wait_seconds(self) -> float | None:
        if self.next_due_at is None:
            return None
        return max(0.0, (self.next_due_at - self.settled_at).total_seconds())

    @property
    def error(self) -> str:
        """The last line of a traceback without the module, or the reason of a discard."""
        line = self.note.strip().splitlines()[-1] if self.note.strip() else ""
        name, colon, message = line.partition(": ")
        return f"{name.rpartition('.')[2]}{colon}{message}"


class Watch:
    def __init__(self) -> None:
        self._seen: list[int] = []

    def new(self) -> list[Sight]:
        self._seen = sorted(self._seen)[-LOOK_BACK:]
        floor = self._seen[0] - 1 if len(self._seen) == LOOK_BACK else 0
        with connection.cursor() as cursor:
            cursor.execute(_NEW_ATTEMPTS, [floor, self._seen])
            sights = [Sight(*row) for row in cursor.fetchall()]
        self._seen += [sight.id for sight in sights]
        return sights


def still_open() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM duebox_delivery")
        return int(cursor.fetchone()[0])


def due_within(seconds: float) -> int:
    """Schedules that are due by then, or were already."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM duebox_schedule WHERE status = 'scheduled' AND due_at <= now() + %s * interval '1 s'",
            [seconds],
        )
        return int(cursor.fetchone()[0])
