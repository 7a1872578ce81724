"""A day of the month at a wall clock time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, ClassVar

from duebox.when.errors import InvalidRule
from duebox.when.occurrence import Moved, Nominal
from duebox.when.policy import Leap, choose
from duebox.when.rules.base import WallRule
from duebox.when.rules.daily import check_step, on_day, read_step, write_step
from duebox.when.rules.leap import date_in_month
from duebox.when.times import LAST_YEAR, day, times_of_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Monthly(WallRule):
    """Day `day` of every `every`-th month, counted from the month of `since`; -1 is the last day."""

    kind: ClassVar[str] = "monthly"
    day: int
    at: tuple[time, ...]
    every: int = 1
    since: date | None = None
    leap: Leap = Leap.BACKWARD

    def __post_init__(self) -> None:
        check_step(self.every, self.since, "month")
        object.__setattr__(self, "leap", choose(Leap, self.leap))
        if not isinstance(self.day, int) or not 1 <= abs(self.day) <= 31:
            raise InvalidRule(f"Day {self.day!r} of the month does not exist; use 1 to 31, or -1 for the last.")
        if self.leap is Leap.OMIT and not _ever(self.day, self.every, self.since):
            raise InvalidRule(f"Day {self.day} never comes every {self.every} months; use another leap policy.")

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time."""
        first = _month(self.since) if self.since else 0
        # One month back: with `forward`, the 31st of a short month falls into the next one.
        month = max(first, _month(after.date()) - 1)
        month += (first - month) % self.every
        while month // 12 <= LAST_YEAR:
            found = date_in_month(month // 12, month % 12 + 1, self.day, self.leap)
            if found and (self.since is None or found >= self.since):
                moved = Moved.LEAP if 0 < self.day != found.day else None
                for nominal in on_day(found, self.at, after):
                    yield Nominal(nominal.local, moved=moved)
            month += self.every

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"day": self.day, "leap": self.leap.value, **write_step(self.at, self.every, self.since)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Monthly:
        """The rule again."""
        return cls(day=data["day"], leap=data.get("leap", Leap.BACKWARD), **read_step(data))


def monthly(
    number: int,
    *,
    at: time | str | tuple[time | str, ...],
    every: int = 1,
    since: date | str | None = None,
    leap: Leap | str = Leap.BACKWARD,
) -> Monthly:
    """Each month on one day: `monthly(31, at="09:00")` is the last day of shorter months unless told otherwise."""
    start = None if since is None else day(since, "since")
    return Monthly(day=number, at=times_of_day(at), every=every, since=start, leap=choose(Leap, leap))


def _month(today: date) -> int:
    return today.year * 12 + today.month - 1


def _ever(number: int, every: int, since: date | None) -> bool:
    first = _month(since) if since else 2000 * 12
    # Months and leap years repeat after 400 years, whatever the step.
    months = (first + step * every for step in range(4800))
    return any(date_in_month(2000 + m // 12 % 400, m % 12 + 1, number, Leap.OMIT) for m in months)
