"""Given days of the week at a wall clock time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, ClassVar

from duebox.when.occurrence import Nominal
from duebox.when.rules.base import WallRule
from duebox.when.rules.daily import check_step, on_day, read_step, write_step
from duebox.when.rules.weekdays import CODES, weekday_set
from duebox.when.times import LAST_DAY, day, times_of_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly(WallRule):
    """Weekdays at local times, every `every` weeks. Weeks start on Monday; the one of `since` is the first."""

    kind: ClassVar[str] = "weekly"
    days: tuple[int, ...]
    at: tuple[time, ...]
    every: int = 1
    since: date | None = None

    def __post_init__(self) -> None:
        check_step(self.every, self.since, "week")

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time."""
        first = _week(self.since) if self.since else 0
        week = max(first, _week(after.date()))
        week += (first - week) % self.every
        # Day 1 of Python's calendar is a Monday.
        while week * 7 + 1 <= LAST_DAY:
            for number in self.days:
                today = date.fromordinal(week * 7 + 1 + number)
                if self.since is None or today >= self.since:
                    yield from on_day(today, self.at, after)
            week += self.every

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"days": [CODES[number] for number in self.days], **write_step(self.at, self.every, self.since)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Weekly:
        """The rule again."""
        return cls(days=weekday_set(data["days"]), **read_step(data))


def weekly(
    *days: int | str, at: time | str | tuple[time | str, ...], every: int = 1, since: date | str | None = None
) -> Weekly:
    """Each week on given days: `weekly("mon", "thu", at="09:00")`."""
    start = None if since is None else day(since, "since")
    return Weekly(days=weekday_set(days), at=times_of_day(at), every=every, since=start)


def _week(today: date) -> int:
    return (today.toordinal() - 1) // 7
