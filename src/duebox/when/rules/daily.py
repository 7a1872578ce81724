"""Every day, or every n-th, at a wall clock time; found by arithmetic, however far away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, ClassVar

from duebox.when.errors import InvalidRule
from duebox.when.occurrence import Nominal
from duebox.when.rules.base import WallRule
from duebox.when.times import LAST_DAY, day, times_of_day


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily(WallRule):
    """Local times of day, every `every` days counted from `since`."""

    kind: ClassVar[str] = "daily"
    at: tuple[time, ...]
    every: int = 1
    since: date | None = None

    def __post_init__(self) -> None:
        check_step(self.every, self.since, "day")

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time."""
        first = self.since.toordinal() if self.since else 1
        number = max(first, after.toordinal())
        number += (first - number) % self.every
        while number <= LAST_DAY:  # `date` itself ends a year later, and a long step may pass that
            yield from on_day(date.fromordinal(number), self.at, after)
            number += self.every

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return write_step(self.at, self.every, self.since)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Daily:
        """The rule again."""
        return cls(**read_step(data))


def daily(at: time | str | tuple[time | str, ...], *, every: int = 1, since: date | str | None = None) -> Daily:
    """Each day at one or more local times: `daily("09:00")`; `every=2` needs `since` to count from."""
    return Daily(at=times_of_day(at), every=every, since=None if since is None else day(since, "since"))


def on_day(today: date, at: tuple[time, ...], after: datetime) -> Iterator[Nominal]:
    """The times of one day that lie after a local time."""
    for moment in (datetime.combine(today, one) for one in at):
        if moment > after:
            yield Nominal(moment)


def check_step(every: int, since: date | None, unit: str) -> None:
    """Refuse a step that is no step, or that has nothing to count from."""
    if not isinstance(every, int) or every < 1:
        raise InvalidRule(f"every={every!r} {unit}s is no step; use a whole number from 1.")
    if every > 1 and since is None:
        raise InvalidRule(f"every={every} {unit}s has no day to count from; add since=date(...).")


def write_step(at: tuple[time, ...], every: int, since: date | None) -> dict[str, Any]:
    """The JSON-able data that daily, weekly and monthly rules share."""
    found: dict[str, Any] = {"at": [one.isoformat() for one in at]}
    if every != 1:
        found["every"] = every
    if since is not None:
        found["since"] = since.isoformat()
    return found


def read_step(data: dict[str, Any]) -> dict[str, Any]:
    """The same data as arguments."""
    since = data.get("since")
    return {
        "at": times_of_day(data["at"]),
        "every": data.get("every", 1),
        "since": None if since is None else day(since, "since"),
    }
