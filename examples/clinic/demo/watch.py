"""What the worker did since the last look, with the moments at which the events were committed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from duebox.observe import watch

_COMMITTED = "SELECT id::text, pg_xact_commit_timestamp(xmin) FROM duebox_event WHERE id = ANY (%s::uuid[])"


@dataclass(frozen=True, slots=True)
class Sight:
    """One attempt, with the commit of its event."""

    row: watch.Seen
    about: str
    error: str
    """The last line of a traceback without the module, or the reason of a discard."""
    wait_seconds: float | None
    committed_at: datetime

    @property
    def late_ms(self) -> float | None:
        """From the commit, or for a later attempt from when it was due, until the handler started."""
        if self.row.started_at is None:
            return None
        return max(0.0, (self.row.started_at - max(self.committed_at, self.row.due_at)).total_seconds() * 1000)


class Watch:
    def __init__(self) -> None:
        self._watch = watch.Watch(after=0)

    def new(self) -> list[Sight]:
        """In the order of the commits."""
        found = [each for each in self._watch.new() if each.row.subscriber]
        with connection.cursor() as cursor:
            cursor.execute(_COMMITTED, [[each.row.event_id for each in found]])
            committed = dict(cursor.fetchall())
        sights = [_sight(each, committed[each.row.event_id]) for each in found if each.row.event_id in committed]
        return sorted(sights, key=lambda sight: (sight.committed_at, sight.row.event_id, sight.row.id))


def _sight(found: watch.Sight, committed_at: datetime) -> Sight:
    name, colon, message = found.error.partition(": ")
    error = f"{name.rpartition('.')[2]}{colon}{message}"
    return Sight(found.row, found.about, error, found.wait_seconds, committed_at)


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
