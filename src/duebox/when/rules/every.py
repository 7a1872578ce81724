"""Fixed intervals of real time, counted from an anchor and never from the last run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from duebox.when.errors import InvalidRule
from duebox.when.rules.base import ElapsedRule
from duebox.when.times import LAST_YEAR, instant, read, write

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Every(ElapsedRule):
    """An interval of elapsed time from an anchor: late runs and restarts do not make it drift."""

    kind: ClassVar[str] = "every"
    interval: timedelta
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", instant(self.anchor, "Every(anchor)"))
        if self.interval < A_MINUTE:
            raise InvalidRule(f"Interval {self.interval} is under a minute; use one minute or more.")

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, by arithmetic alone; none before the anchor."""
        step = max(0, (after - self.anchor) // self.interval + 1)
        moment = self.anchor + step * self.interval
        while moment.year <= LAST_YEAR:
            yield moment
            moment += self.interval

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"seconds": self.interval.total_seconds(), "anchor": write(self.anchor)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Every:
        """The rule again."""
        return cls(timedelta(seconds=data["seconds"]), read(data["anchor"]))


def every(*, weeks: int = 0, days: int = 0, hours: int = 0, minutes: int = 0, anchor: datetime = EPOCH) -> Every:
    """An exact interval: `every(hours=6)`. A day here is 24 hours; `daily` keeps the wall clock."""
    return Every(timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes), anchor)
