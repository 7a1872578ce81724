"""Plans without a model yet, and questions that the tests of plans ask again and again.

A plan is declared in a test with `declare(Reminders)`, and forgotten after it by `forgetting()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db.models import Model, QuerySet

import duebox
from duebox.models import Event, Schedule, ScheduleLog
from duebox.schedules import plans
from duebox.when import Rule, anniversary, days, hours, minutes
from tests.app.people import Appointment, Person


class Reminders(duebox.Plan):
    """A day, two hours and a quarter of an hour before; and a question the day after."""

    event = "appointment.reminder"
    offsets = (days(-1), hours(-2), minutes(-15), hours(24))

    def queryset(self) -> QuerySet[Any]:
        return Appointment.objects.select_related("person", "room")

    def anchor(self, row: Any) -> datetime | None:
        return datetime.fromisoformat(row.local_start) if row.local_start else row.starts_at

    def zone(self, row: Any) -> str:
        return row.person.zone if row.person else super().zone(row)

    def when(self, row: Any) -> bool:
        return bool(row.status == "booked")


class Birthdays(duebox.Plan):
    """Greetings at nine in the morning."""

    event = "person.birthday"

    def rule(self, row: Any) -> Rule | None:
        return anniversary(row.born_on, at="09:00")

    def zone(self, row: Any) -> str:
        return str(row.zone)

    def data(self, row: Any) -> dict[str, Any]:
        return {"name": row.name}


def declare(base: type[duebox.Plan], model: type[Model] | None = None, **parts: Any) -> Any:
    """A plan of its own for a test: by default reminders of appointments and birthdays of people."""
    model = model or (Person if issubclass(base, Birthdays) else Appointment)
    return type(base.__name__, (base,), {"__module__": __name__, "model": model, **parts})


@contextmanager
def forgetting() -> Iterator[None]:
    """Plans that are declared inside are forgotten at the end."""
    before = {plan.name for plan in plans.plans()}
    try:
        yield
    finally:
        for name in [plan.name for plan in plans.plans() if plan.name not in before]:
            plans.remove(name)


def utc(text: str) -> datetime:
    """An instant from text such as 2026-03-28 10:00."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# Nine o'clock UTC on the day on which summer time begins in London, at 01:00.
SUNDAY = utc("2026-03-29 09:00")


def reminding(*offsets: Any, **parts: Any) -> Any:
    """Reminders of appointments at these offsets."""
    return declare(Reminders, offsets=offsets, **parts)


def mark(key: str) -> str:
    """Which of a row's schedules it is: an offset such as -P1D, or nothing for the only one."""
    return key.split(":", 2)[2] if key.count(":") > 1 else ""


def live(row: Model | None = None, using: str = "default") -> dict[str, datetime | None]:
    """What is to come for a row, or for all, by offset."""
    rows = Schedule.objects.using(using).scheduled()
    if row is not None:
        rows = rows.about(row)
    return {mark(each.key): each.due_at for each in rows}


def statuses() -> dict[str, str]:
    return {mark(each.key): each.status for each in Schedule.objects.all()}


def revisions() -> dict[str, int]:
    return {each.key: each.revision for each in Schedule.objects.all()}


def fired(type: str | None = None) -> list[tuple[str, datetime]]:
    """What happened, in order: which of a row's schedules, and when."""
    events = Event.objects.filter(type=type) if type else Event.objects.exclude(type__startswith="duebox.")
    return [(mark(event.metadata["schedule"]["key"]), event.occurred_at) for event in events.order_by("id")]


def schedule_log() -> list[tuple[str, str]]:
    """What did not go as planned, in order: what, and for which of a row's schedules."""
    return [(line.what, mark(line.source)) for line in ScheduleLog.objects.order_by("id")]
