"""Plans and handlers for the tests of time. Declared by those who ask for it, so that no other test has them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import duebox
from duebox import clock
from duebox.events import subscribers
from duebox.schedules import plans
from duebox.when import Rule, anniversary, days, hours, minutes
from tests.crash.time_year import GRACE


class Birthdays(duebox.Plan):
    """Each year on the date of birth, at the guest's own time of day, on the guest's own clock."""

    name = "guests.birthdays"
    event = "guest.birthday"
    grace = GRACE

    def rule(self, row: Any) -> Rule:
        return anniversary(row.born, at=row.greeted_at)

    def zone(self, row: Any) -> str:
        return str(row.zone)

    def data(self, row: Any) -> Mapping[str, Any]:
        return {"born": row.born.isoformat()}


class Reminders(duebox.Plan):
    """Before and after a visit."""

    name = "guests.reminders"
    event = "visit.reminder"
    offsets = (days(-1), hours(-2), minutes(-15), days(1))

    def anchor(self, row: Any) -> datetime:
        found: datetime = row.starts_at
        return found

    def zone(self, row: Any) -> str:
        return str(row.zone)


def greet(event: duebox.Fact) -> None:
    """Writes down who was greeted, when on Duebox's clock, and by which process."""
    from tests.app.guests import Greeting

    planned = event.metadata["schedule"]
    assert event.about is not None
    Greeting.objects.create(
        event_id=event.id,
        guest_id=int(event.about[1]),
        year=int(planned["occurrence"]),
        at=clock.now(),
        zone=planned["zone"],
        worker=os.getpid(),
    )


def ring(event: duebox.Fact) -> None:
    _take_a_while(event, "bell.ring")


def ring_outside(event: duebox.Fact) -> None:
    _take_a_while(event, "bell.ring_outside")


def _take_a_while(event: duebox.Fact, subscriber: str) -> None:
    from tests.app.models import Effect

    Effect.objects.create(event_id=event.id, subscriber=subscriber)
    time.sleep(event.data.get("seconds", 0))


class Declared(NamedTuple):
    birthdays: type[duebox.Plan]
    reminders: type[duebox.Plan]


def declare() -> Declared:
    """Connects the plans to their models, and the handlers to their events."""
    from tests.app.guests import Guest, Visit

    duebox.on("guest.birthday", name="guests.greet")(greet)
    duebox.on("bell.rung", name="bell.ring")(ring)
    duebox.on("bell.rung", name="bell.ring_outside", atomic=False)(ring_outside)
    return Declared(
        type("Birthdays", (Birthdays,), {"model": Guest, "__module__": __name__}),
        type("Reminders", (Reminders,), {"model": Visit, "__module__": __name__}),
    )


@contextmanager
def declared() -> Iterator[Declared]:
    """The same for the length of a block."""
    yield declare()
    for plan in (Birthdays, Reminders):
        plans.remove(plan.name)
    for name in ("guests.greet", "bell.ring", "bell.ring_outside"):
        subscribers.remove(name)
