"""What a rule is: a source of local times, or of instants.

Daily and coarser rules keep the wall clock and name local times; hourly and finer ones run on elapsed time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from duebox.when.occurrence import Nominal


class Rule(ABC):
    """Anything a timetable can follow; a value that turns into a plain dict and back."""

    __slots__ = ()
    kind: ClassVar[str]
    single: ClassVar[bool] = False
    """Whether it names one occurrence only."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON-able data, without its kind."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: dict[str, Any]) -> Rule:
        """The rule again."""


class WallRule(Rule):
    """A rule that names local times."""

    __slots__ = ()

    @abstractmethod
    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time, each later than the one before."""


class ElapsedRule(Rule):
    """A rule that names instants, whatever the clocks on the wall do."""

    __slots__ = ()

    @abstractmethod
    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, each later than the one before."""
