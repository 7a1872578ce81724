"""What visitors of the time lapse ask for: real HTTP requests, and a note in the book of what they were told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from examples.clinic.demo.client import Answer, Client
from examples.clinic.demo.lapse.book import Book, Due, birthday, follow_up, instant, reminders, reviews, task, wall
from examples.clinic.demo.lapse.conductor import Conductor


@dataclass
class Doctor:
    name: str
    zone: str


@dataclass
class Visitor:
    pk: int
    name: str
    zone: str
    born_on: date


@dataclass
class Visit:
    reference: str
    visitor: Visitor
    doctor: Doctor
    starts_at: datetime


Say = Callable[[datetime, str], None]


class Desk:
    def __init__(self, client: Client, conductor: Conductor, notes: Book, say: Say) -> None:
        self.moved = self.cancelled = 0
        self.zones: set[str] = set()
        self._client = client
        self._conductor = conductor
        self._book = notes
        self._tell = say
        self._asked = self._answered = conductor.now()
        self._booked: list[Visit] = []

    def hire(self, name: str, zone: str) -> Doctor:
        self._post("/doctors/", name=name, zone=zone)
        lapse = self._conductor.lapse
        self._agree(f"doctor:{name}", *reviews(name, zone, lapse.start, lapse.end))
        self.zones.add(zone)
        return Doctor(name, zone)

    def invite(self, name: str, zone: str, born_on: date) -> Visitor:
        form = {"name": name, "email": f"{name.lower()}@example.org", "phone": "+41 79 555 0104"}
        answer = self._post("/patients/", **form, zone=zone, born_on=born_on)
        visitor = Visitor(int(answer.data["patient"]), name, zone, born_on)
        self._agree_birthday(visitor)
        return visitor

    def book(self, visitor: Visitor, doctor: Doctor, local: datetime) -> Visit:
        answer = self._post("/appointments/", patient=visitor.pk, doctor=doctor.name, starts_at=local.isoformat())
        reference = answer.data["appointments"][0]
        visit = Visit(reference, visitor, doctor, instant(local, doctor.zone))
        self._booked.append(visit)
        self._agree_reminders(visit)
        self.say(f"{visitor.name} books {_at(visit)}")
        return visit

    def ask_in_vain(self, visitor: Visitor, doctor: Doctor, local: datetime) -> None:
        answer = self._post("/appointments/", patient=visitor.pk, doctor=doctor.name, starts_at=local.isoformat())
        self.say(f"{visitor.name} asks {doctor.name} in vain: {answer.data['refused']}")

    def move(self, visit: Visit, local: datetime) -> None:
        self._post(f"/appointments/{visit.reference}/reschedule/", starts_at=local.isoformat())
        visit.starts_at = instant(local, visit.doctor.zone)
        self._agree_reminders(visit)
        self.moved += 1
        self.say(f"{visit.visitor.name} moves the appointment: {_at(visit)}")

    def cancel(self, visit: Visit) -> None:
        self._post(f"/appointments/{visit.reference}/cancel/")
        self._booked.remove(visit)
        self._agree(f"appointment:{visit.reference}")
        self.cancelled += 1
        self.say(f"{visit.visitor.name} cancels {_at(visit)}")

    def attend(self, visit: Visit) -> None:
        """Noted at the desk, so nobody says anything."""
        self._post(f"/appointments/{visit.reference}/attend/")
        self._booked.remove(visit)
        due = follow_up(visit.reference, visit.starts_at, visit.visitor.zone)
        self._agree(f"appointment:{visit.reference}", due)

    def relocate(self, visitor: Visitor, zone: str) -> None:
        self._post(f"/patients/{visitor.pk}/move/", zone=zone)
        self.say(f"{visitor.name} moves from {visitor.zone} to {zone}")
        visitor.zone = zone
        self._agree_birthday(visitor)
        for visit in self._booked:
            if visit.visitor is visitor:
                self._agree_reminders(visit)

    def add_task(self, visitor: Visitor, title: str, due_at: datetime) -> int:
        answer = self._post("/tasks/", patient=visitor.pk, title=title, due_at=due_at.isoformat())
        pk = int(answer.data["task"])
        self._agree(f"task:{pk}", task(pk, due_at))
        self.say(f"task for {visitor.name}: {title}, until {due_at:%a %d %b %H:%M} UTC")
        return pk

    def finish(self, pk: int, title: str) -> None:
        self._post(f"/tasks/{pk}/done/")
        self._agree(f"task:{pk}")
        self.say(f"done in good time: {title}")

    def appointments_of(self, visitor: Visitor) -> list[tuple[str, str]]:
        """Those that stand, as Duebox calls them."""
        return [("appointment", visit.reference) for visit in self._booked if visit.visitor is visitor]

    def _post(self, path: str, **form: Any) -> Answer:
        self._asked = self._conductor.now()
        answer = self._client.post(path, **form)
        self._answered = self._conductor.now()
        return answer

    def _agree(self, about: str, *dues: Due) -> None:
        self._book.agree(about, self._asked, self._answered, dues)

    def _agree_reminders(self, visit: Visit) -> None:
        dues = reminders(visit.reference, visit.starts_at, visit.visitor.zone)
        self._agree(f"appointment:{visit.reference}", *dues)

    def _agree_birthday(self, visitor: Visitor) -> None:
        self.zones.add(visitor.zone)
        year = self._conductor.lapse.start.year
        self._agree(f"patient:{visitor.pk}", birthday(visitor.pk, visitor.born_on, visitor.zone, year))

    def say(self, text: str) -> None:
        self._tell(self._answered, text)


def _at(visit: Visit) -> str:
    zone = visit.doctor.zone
    return f"{visit.doctor.name}, {wall(visit.starts_at, zone):%a %d %b %H:%M} {zone}"
