"""The same date each year: birthdays above all. One addition, however old the person is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, ClassVar

from duebox.when.occurrence import Moved, Nominal
from duebox.when.policy import Leap, choose
from duebox.when.rules.base import WallRule
from duebox.when.rules.leap import date_in_month
from duebox.when.times import LAST_YEAR, day, time_of_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Anniversary(WallRule):
    """A date at a local time in each later year. An occurrence is known by its year alone.

    So a birthday corrected from the 20th to the 21st after the greeting went out brings no second greeting.
    """

    kind: ClassVar[str] = "anniversary"
    of: date
    at: time
    leap: Leap = Leap.BACKWARD

    def __post_init__(self) -> None:
        object.__setattr__(self, "leap", choose(Leap, self.leap))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time, from the year after the date's own."""
        for year in range(max(self.of.year + 1, after.year), LAST_YEAR + 1):
            found = self.in_year(year)
            if found and found.local > after:
                yield found

    def in_year(self, year: int) -> Nominal | None:
        """The anniversary of one year; none when the date is missing and the policy is to omit it."""
        found = date_in_month(year, self.of.month, self.of.day, self.leap)
        if found is None:
            return None
        moved = None if found.day == self.of.day else Moved.LEAP
        return Nominal(datetime.combine(found, self.at), f"{year:04}", moved)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"of": self.of.isoformat(), "at": self.at.isoformat(), "leap": self.leap.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Anniversary:
        """The rule again."""
        return cls(of=day(data["of"]), at=time_of_day(data["at"]), leap=data.get("leap", Leap.BACKWARD))


def anniversary(of: date | str, *, at: time | str, leap: Leap | str = Leap.BACKWARD) -> Anniversary:
    """Each year on a date: `anniversary(date(1990, 2, 29), at="09:00")`; Feb 29 is Feb 28 in common years."""
    return Anniversary(of=day(of, "of"), at=time_of_day(at, "at"), leap=choose(Leap, leap))
