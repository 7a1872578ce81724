"""The errors of this package. Every message has the fact, the value and the repair.

WhenError             a DueboxError
├── UnknownZone       no such zone in the zone database; names the nearest ones
├── InvalidRule       the rule cannot be read, never matches, or is not supported
├── WrongKindOfTime   a naive time where an instant is needed, or the other way round
└── UnresolvedTime    the wall clock never, or twice, shows this time and the policy is `reject`
    ├── NonexistentTime
    └── RepeatedTime
"""

from __future__ import annotations

from datetime import datetime

from duebox.exceptions import DueboxError


class WhenError(DueboxError, ValueError):
    """The base of all errors of this package."""


class UnknownZone(WhenError):
    """The zone database has no zone of this name."""

    def __init__(self, name: object, release: str, nearest: list[str], *, where: str = "") -> None:
        self.name = name
        self.release = release
        self.nearest = nearest
        if name == "":
            super().__init__("No zone is given; name one, such as zone='Europe/London'.")
            return
        repair = f"did you mean {' or '.join(nearest)}?" if nearest else "use an IANA name such as Europe/London."
        super().__init__(f"{where}Zone {name!r} is not in the zone database ({release}); {repair}")


class InvalidRule(WhenError):
    """The rule cannot be used as given."""


class WrongKindOfTime(WhenError):
    """A naive time was given where an instant is needed, or the other way round."""


class UnresolvedTime(WhenError):
    """The wall clock does not show this time exactly once."""

    fact = "does not happen exactly once"
    repair = "pick another time or policy"

    def __init__(self, local: datetime, zone: str) -> None:
        self.local = local
        self.zone = zone
        super().__init__(f"Local time {local.isoformat()} {self.fact} in {zone}; {self.repair}.")


class NonexistentTime(UnresolvedTime):
    """Clocks jump over this local time."""

    fact = "does not exist"
    repair = "pick another time, or a gap policy such as 'shift_forward'"


class RepeatedTime(UnresolvedTime):
    """Clocks show this local time twice."""

    fact = "happens twice"
    repair = "pick another time, or a fold policy such as 'first'"
