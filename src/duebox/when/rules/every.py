"""Fixed intervals of real time, counted from an anchor and never from the last run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from duebox.when.errors import InvalidRule
from duebox.when.rules.base import ElapsedRule
from duebox.when.times import LAST_INSTANT, NO_TIME, elapsed, instant, read, write

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Every(ElapsedRule):
    """An interval of elapsed time from an anchor: late runs and restarts do not make it drift."""

    kind: ClassVar[str] = "every"
    interval: timedelta
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchor", instant(self.anchor, "Every(anchor)"))
        if not isinstance(self.interval, timedelta) or self.interval <= NO_TIME:
            raise InvalidRule(f"{self.interval!s} is not an interval; give one above zero, such as every(seconds=30).")
        if self.interval < A_SECOND:
            raise InvalidRule(
                f"Interval {self.interval} repeats more often than once a second; use every(seconds=1) or more."
            )
        if self.interval % A_SECOND:
            raise InvalidRule(f"Interval {self.interval} is not a whole number of seconds; round it.")

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, by arithmetic alone; none before the anchor."""
        step = max(0, (after - self.anchor) // self.interval + 1)
        last = (LAST_INSTANT - self.anchor) // self.interval
        while step <= last:
            yield self.anchor + step * self.interval
            step += 1

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"seconds": self.interval.total_seconds(), "anchor": write(self.anchor)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Every:
        """The rule again."""
        return cls(timedelta(seconds=data["seconds"]), read(data["anchor"]))


def every(
    interval: timedelta | None = None,
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    anchor: datetime = EPOCH,
) -> Every:
    """An exact interval: `every(hours=6)`, `every(seconds=30)`, or a timedelta. A second is the shortest.

    A day here is 24 hours; `daily` keeps the wall clock.
    """
    total = elapsed("every()", weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    if interval is None:
        return Every(total, anchor)
    if not isinstance(interval, timedelta):
        raise InvalidRule(
            f"every({interval!r}) does not say of what; pass a timedelta, or every(seconds={interval!r})."
        )
    if total:
        raise InvalidRule("every() was given both a timedelta and units; leave one of them out.")
    return Every(interval, anchor)
