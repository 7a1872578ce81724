"""One time a rule asks for: what the user meant, and the instant it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from duebox.when.resolver import How
from duebox.when.times import NO_TIME, short

# Ends the key of the second reading of a repeated time, where both are wanted.
SECOND = "#2"


class Moved(StrEnum):
    """Why an occurrence left the date its rule named."""

    LEAP = "leap_moved"
    CALENDAR = "calendar_moved"


@dataclass(frozen=True, slots=True)
class Nominal:
    """A local time a rule names, before the clock of any zone has a say.

    `key` is set by rules whose occurrences are known by something coarser than their time: a birthday by its year.
    """

    local: datetime
    key: str = ""
    moved: Moved | None = None

    def identity(self) -> str:
        """The name of the occurrence, the same in every zone and every release of the zone database."""
        return self.key or short(self.local)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence: its identity, the local time meant, and the instant it fires.

    `key` survives re-planning: the same occurrence keeps it when a zone, a zone release or a flex window moves
    its instant. Keys of one rule sort in the order of its occurrences; those of instants do so without their Z.
    """

    key: str
    nominal: datetime
    instant: datetime
    how: How
    moved: Moved | None = None
    spread: timedelta = NO_TIME

    @property
    def marks(self) -> tuple[str, ...]:
        """What a preview should point out; empty for an ordinary occurrence."""
        moved = (self.moved.value,) if self.moved else ()
        unusual = () if self.how in (How.EXACT, How.ELAPSED) else (self.how.value,)
        return moved + unusual


def elapsed_key(moment: datetime) -> str:
    """The name of an occurrence that is known by its instant."""
    return short(moment.replace(tzinfo=None)) + "Z"
