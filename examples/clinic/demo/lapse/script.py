"""Who comes to the clinic in these eight days, and when. All times of day are on the doctor's wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

from examples.clinic.demo.lapse.desk import Desk, Doctor, Visit, Visitor

Step = tuple[datetime, Callable[[], object]]

# Attendance is noted late: between the last reminder and the follow-up, with room to both on a slow machine.
NOTED_AFTER = timedelta(hours=18)


class Script:
    """First the opening, while the clock still waits; then `steps`, each at its moment, in UTC."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._visits: dict[str, Visit] = {}
        self._tasks: dict[str, int] = {}

    def opening(self) -> Visitor:
        """Gives the patient who was born on a 29 February."""
        self._hire()
        self._invite()
        desk = self._desk
        desk.ask_in_vain(self.ada, self.lindqvist, datetime(2026, 3, 29, 2, 30))
        self._book("night", self.ada, self.lindqvist, datetime(2026, 3, 30, 2, 30))
        self._book("tokyo", self.keiko, self.tanaka, datetime(2026, 3, 31, 10, 0))
        self._book("video", self.grace, self.okafor, datetime(2026, 4, 1, 15, 0))
        self._book("off", self.farid, self.lindqvist, datetime(2026, 4, 2, 11, 0))
        self._book("twice", self.matilda, self.nguyen, datetime(2026, 4, 6, 2, 30))
        self._tasks["laboratory"] = desk.add_task(self.keiko, "call the laboratory", _utc(3, 30, 15))
        self._tasks["vaccine"] = desk.add_task(self.farid, "order vaccine", _utc(4, 2, 12))
        return self.matilda

    def steps(self) -> Iterator[Step]:
        desk, visits = self._desk, self._visits
        yield _utc(3, 30, 12), lambda: desk.move(visits["video"], datetime(2026, 4, 2, 15, 0))
        yield _utc(3, 30, 16), lambda: self._book("again", self.keiko, self.tanaka, datetime(2026, 4, 3, 10, 0))
        yield self._attended("night")
        yield _utc(3, 31, 10), lambda: desk.cancel(visits["off"])
        yield _utc(3, 31, 15), lambda: self._book("no-show", self.luis, self.okafor, datetime(2026, 4, 3, 16, 0))
        yield self._attended("tokyo")
        yield _utc(3, 31, 21), lambda: desk.finish(self._tasks["vaccine"], "order vaccine")
        yield _utc(4, 1, 5), lambda: desk.relocate(self.luis, "Europe/Lisbon")
        # Its first reminder is out by now; the new time has one of its own.
        yield _utc(4, 2, 18), lambda: desk.move(visits["again"], datetime(2026, 4, 4, 10, 0))
        yield self._attended("video")
        yield self._attended("again")

    def _hire(self) -> None:
        hire = self._desk.hire
        self.okafor: Doctor = hire("Dr. Okafor", "Africa/Lagos")
        self.lindqvist: Doctor = hire("Dr. Lindqvist", "Europe/Berlin")
        self.tanaka: Doctor = hire("Dr. Tanaka", "Asia/Tokyo")
        self.nguyen: Doctor = hire("Dr. Nguyen", "Australia/Sydney")

    def _invite(self) -> None:
        invite = self._desk.invite
        self.ada: Visitor = invite("Ada", "Europe/Berlin", date(1988, 3, 30))
        self.keiko: Visitor = invite("Keiko", "Asia/Tokyo", date(1975, 3, 29))
        self.grace: Visitor = invite("Grace", "America/New_York", date(1991, 4, 2))
        self.farid: Visitor = invite("Farid", "Asia/Kolkata", date(2001, 4, 1))
        self.luis: Visitor = invite("Luís", "America/Sao_Paulo", date(1969, 4, 3))
        self.matilda: Visitor = invite("Matilda", "Australia/Sydney", date(1996, 2, 29))
        patients = (self.ada, self.keiko, self.grace, self.farid, self.luis, self.matilda)
        self._desk.say("patients: " + ", ".join(f"{each.name} in {_city(each.zone)}" for each in patients))

    def _book(self, name: str, visitor: Visitor, doctor: Doctor, local: datetime) -> None:
        self._visits[name] = self._desk.book(visitor, doctor, local)

    def _attended(self, name: str) -> Step:
        """Asked for when its turn comes: by then the appointment may have moved."""
        visit = self._visits[name]
        return visit.starts_at + NOTED_AFTER, lambda: self._desk.attend(visit)


def _utc(month: int, day: int, hour: int) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


def _city(zone: str) -> str:
    return zone.rpartition("/")[2].replace("_", " ")
