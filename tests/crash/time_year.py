"""A year of people: who is born when and lives where, what is edited in that year, and who should be greeted when.

What should happen is calculated here by plain datetime arithmetic on the zone files of the `tzdata` package. Nothing of
`duebox` is imported: this is the other opinion.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

# A year and two weeks: February 29 is missing in 2027 and there in 2028, and both must be right.
START = datetime(2027, 2, 20, 0, 0, tzinfo=UTC)
END = datetime(2028, 3, 5, 0, 30, tzinfo=UTC)
NINE = time(9)
GRACE = timedelta(hours=12)
AN_HOUR = timedelta(hours=1)

# Forty of them: every kind of clock change that there is, on both hemispheres, and those that have none; quarters and
# halves of an hour; both ends of the date line.
ZONES = (
    "Pacific/Pago_Pago", "Pacific/Honolulu", "America/Adak", "America/Anchorage", "America/Los_Angeles",
    "America/Phoenix", "America/Denver", "America/Chicago", "America/Mexico_City", "America/New_York",
    "America/Havana", "America/Bogota", "America/Halifax", "America/Santiago", "America/St_Johns",
    "America/Sao_Paulo", "America/Nuuk", "Atlantic/Azores", "Atlantic/Reykjavik", "Europe/London",
    "Africa/Casablanca", "Africa/Lagos", "Europe/Berlin", "Europe/Kyiv", "Africa/Cairo",
    "Asia/Jerusalem", "Asia/Beirut", "Europe/Istanbul", "Asia/Tehran", "Asia/Dubai",
    "Asia/Kolkata", "Asia/Kathmandu", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo",
    "Australia/Adelaide", "Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Kiritimati",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """Somebody moves to another zone, or a date of birth is corrected. `group` edits go past the model's signals."""

    at: datetime
    person: int
    zone: str = ""
    born: date | None = None
    group: bool = False

    def __str__(self) -> str:
        what = f"moves to {self.zone}" if self.zone else f"is born {self.born} from now on"
        return f"{self.at:%Y-%m-%d %H:%M}Z {what}{' (in a group)' if self.group else ''}"


@dataclass(frozen=True, slots=True)
class Greet:
    """A greeting: for which year, at which instant, on whose clock."""

    year: int
    at: datetime
    zone: str

    @property
    def local(self) -> datetime:
        return self.at.astimezone(rules_of(self.zone))

    def __str__(self) -> str:
        return f"{self.year} at {self.at:%Y-%m-%d %H:%M}Z, {self.local:%d %b %H:%M} in {self.zone}"


@dataclass(slots=True)
class Person:
    id: int
    born: date
    zone: str
    edits: list[Edit] = field(default_factory=list)

    def story(self) -> str:
        lines = [f"person {self.id}, born {self.born}, in {self.zone}", *map(str, self.edits)]
        return "\n    ".join(lines)


@cache
def rules_of(zone: str) -> ZoneInfo:
    """From the tzdata package, whatever the system has."""
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


@cache
def birthday(born: date, year: int, zone: str) -> datetime:
    """Nine in the morning of the birthday, as an instant; February 29 is the 28th in common years."""
    try:
        day = born.replace(year=year)
    except ValueError:
        day = date(year, 2, 28)
    return datetime.combine(day, NINE, rules_of(zone)).astimezone(UTC)


def next_birthday(born: date, zone: str, after: datetime, greeted: int) -> Greet:
    """The first one later than a moment, of a year that was not greeted yet."""
    year = max(after.year - 1, greeted + 1)
    while birthday(born, year, zone) <= after:
        year += 1
    return Greet(year, birthday(born, year, zone), zone)


class Fate(NamedTuple):
    """What becomes of a person's birthdays: the greetings, the years missed, and the one to come after the end."""

    greeted: list[Greet]
    missed: list[int]
    next: Greet


def fate_of(person: Person) -> Fate:
    """What should happen, by these rules:

    - each birthday is greeted once, at nine on the clock of the zone the person is in by then;
    - a move by which nine o'clock is past already is greeted at once if that is no more than 12 hours ago, else not;
    - a corrected date that lies in the past is not greeted this year;
    - a year that was greeted once is not greeted again, whatever is corrected afterwards;
    - an edit in the very second of a birthday comes before the greeting;
    - a year that a move gives up, or a correction when it was due, is recorded as missed; other corrections are moves.
    """
    greeted, missed = list[Greet](), list[int]()
    born, zone = person.born, person.zone
    pending = next_birthday(born, zone, START, 0)
    for edit in [*person.edits, None]:
        while pending.at < (edit.at if edit else END):
            greeted.append(pending)
            pending = next_birthday(born, zone, pending.at, pending.year)
        if edit is None:
            break
        before, born, zone = pending, edit.born or born, edit.zone or zone
        if edit.zone and timedelta(0) <= edit.at - birthday(born, before.year, zone) <= GRACE:
            pending = Greet(before.year, edit.at, zone)
        else:
            pending = next_birthday(born, zone, edit.at, greeted[-1].year if greeted else 0)
        if pending.year > before.year and (edit.zone or before.at == edit.at):
            missed.append(before.year)
    return Fate(greeted, missed, pending)


def people(count: int, luck: random.Random) -> list[Person]:
    """Born on all 366 dates, spread over the zones."""
    dates = [date(2000, 1, 1) + timedelta(days=number) for number in range(366)]
    found = []
    for number in range(count):
        day = dates[number % 366]
        year = luck.randrange(1932, 2020, 4) if (day.month, day.day) == (2, 29) else luck.randrange(1930, 2020)
        found.append(Person(number + 1, day.replace(year=year), luck.choice(ZONES)))
    return found


def edit_lives(everybody: list[Person], moves: int, dates: int, luck: random.Random) -> list[Edit]:
    """So many moves and corrected dates, all over the year; half of them close to a birthday, where it matters."""
    chosen = [list(_moves(everybody, moves, luck)), list(_corrections(everybody, dates, luck))]
    edits = sorted((edit for some in chosen for edit in _gathered(some)), key=_moment)
    assert len({(edit.at, edit.person) for edit in edits}) == moves + dates, "two edits of one person in one second"
    for edit in edits:
        everybody[edit.person - 1].edits.append(edit)
    return edits


def _gathered(edits: list[Edit]) -> list[Edit]:
    """Those that go past the signals come ten at a time, as from an import at night: each waits for
    the last of its ten."""
    grouped = sorted((edit for edit in edits if edit.group), key=_moment)
    tens = [grouped[begin : begin + 10] for begin in range(0, len(grouped), 10)]
    late = [replace(edit, at=ten[-1].at) for ten in tens for edit in ten]
    return [*(edit for edit in edits if not edit.group), *late]


def _moment(edit: Edit) -> datetime:
    return edit.at


def _moves(everybody: list[Person], count: int, luck: random.Random) -> Iterator[Edit]:
    for number, person in enumerate(luck.sample(everybody, count)):
        zone = luck.choice([each for each in ZONES if each != person.zone])
        if number % 10 < 4:
            at = _anywhere(luck)
        elif number % 10 < 9:
            at = _birthday_of(person) + timedelta(minutes=luck.randint(-26 * 60, 14 * 60))
        else:
            at = _birthday_of(person)  # in the very second
        yield Edit(_within(at), person.id, zone=zone, group=number % 5 == 0)


def _corrections(everybody: list[Person], count: int, luck: random.Random) -> Iterator[Edit]:
    for number, person in enumerate(luck.sample(everybody, count)):
        by = luck.choice([-3, -2, -1, 1, 2, 3]) if number % 2 else luck.randint(-180, 180)
        born = person.born + timedelta(days=by or 1)
        at = _birthday_of(person) + luck.uniform(-3, 3) * 24 * AN_HOUR if number % 2 else _anywhere(luck)
        yield Edit(_within(at), person.id, born=born, group=number % 5 == 0)


def _birthday_of(person: Person) -> datetime:
    return next_birthday(person.born, person.zone, START, 0).at


def _anywhere(luck: random.Random) -> datetime:
    return START + luck.random() * (END - START)


def _within(at: datetime) -> datetime:
    return min(max(at, START + AN_HOUR), END - AN_HOUR).replace(microsecond=0)
