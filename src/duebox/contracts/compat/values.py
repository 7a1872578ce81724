"""What a comparison finds, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["backward", "forward"]


@dataclass(frozen=True, slots=True)
class Break:
    """An event that may be written and is then refused, and why."""

    direction: Direction
    path: str
    keyword: str
    what: str
    witness: Any
    """The event: valid for whoever writes, refused by whoever reads."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference in what two schemas say, whether or not it breaks anybody."""

    path: str
    keyword: str
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the new schema take the place of the old one?"""

    backward: tuple[Break, ...] = ()
    """Old events that the new schema refuses: stored ones that come due under new code, and replays."""
    forward: tuple[Break, ...] = ()
    """New events that the old schema refuses: what consumers get who have not been upgraded."""
    changes: tuple[Change, ...] = ()
    """What was removed, and what is said otherwise of a property that was there before."""
    warnings: tuple[Change, ...] = ()
    """What a machine cannot judge: other defaults, other descriptions."""

    @property
    def backward_compatible(self) -> bool:
        return not self.backward

    @property
    def forward_compatible(self) -> bool:
        return not self.forward

    @property
    def additive_only(self) -> bool:
        """Nothing but additions, and they break nobody in either direction."""
        return not (self.backward or self.forward or self.changes)
