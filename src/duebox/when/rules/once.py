"""Things that happen one time: at a wall clock reading, or at a fixed instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from duebox.when.occurrence import Nominal
from duebox.when.rules.base import ElapsedRule, WallRule
from duebox.when.times import instant, read, wall, write


@dataclass(frozen=True, slots=True)
class Once(WallRule):
    """One local time. The instant follows the zone, and a new release of the zone database."""

    kind: ClassVar[str] = "once"
    single: ClassVar[bool] = True
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", wall(self.at, "Once(at)"))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The one local time, if it is still to come."""
        if self.at > after:
            yield Nominal(self.at)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"at": write(self.at)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Once:
        """The rule again."""
        return cls(read(data["at"]))


@dataclass(frozen=True, slots=True)
class Moment(ElapsedRule):
    """One instant, agreed between zones: nothing moves it."""

    kind: ClassVar[str] = "moment"
    single: ClassVar[bool] = True
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", instant(self.at, "Moment(at)"))

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The one instant, if it is still to come."""
        if self.at > after:
            yield self.at

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"at": write(self.at)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Moment:
        """The rule again."""
        return cls(read(data["at"]))


def once(at: datetime) -> Once | Moment:
    """A single occurrence: a naive time is read on the wall clock, an aware one is that instant."""
    return Once(at) if isinstance(at, datetime) and at.tzinfo is None else Moment(at)
