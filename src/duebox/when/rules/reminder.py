"""One time at a distance from an anchor: an hour before the appointment, a week after the visit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from duebox.when.errors import WhenError, WrongKindOfTime
from duebox.when.offsets import Offset, offset
from duebox.when.rules.base import Rule
from duebox.when.times import instant, read, short, wall, write


@dataclass(frozen=True, slots=True)
class Reminder(Rule):
    """An offset from an anchor, which is a wall clock reading if naive and an instant if aware.

    It is known by its anchor and its offset: an anchor that moves has reminders of its own, and one that moves back
    before they fired has the first ones again.
    """

    kind: ClassVar[str] = "reminder"
    single: ClassVar[bool] = True
    anchor: datetime
    by: Offset

    def __post_init__(self) -> None:
        if not isinstance(self.anchor, datetime):
            raise WrongKindOfTime(f"The anchor is {self.anchor!r}, not a time; pass a datetime.")
        if not isinstance(self.by, Offset):
            raise WhenError(f"The offset is {self.by!r}; use one such as days(-1), hours(-2) or '-P1D'.")
        settled = wall(self.anchor) if self.anchor.tzinfo is None else instant(self.anchor)
        object.__setattr__(self, "anchor", settled)

    @property
    def key(self) -> str:
        """Its identity, the same in every zone."""
        mark = "" if self.anchor.tzinfo is None else "Z"
        return f"{short(self.anchor.replace(tzinfo=None))}{mark}/{self.by}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        return {"anchor": write(self.anchor), "by": str(self.by)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Reminder:
        """The rule again."""
        return cls(read(data["anchor"]), offset(data["by"]))


def reminder(anchor: datetime, by: Offset | str) -> Reminder:
    """Once, at an offset from an anchor: `reminder(appointment.starts_at, days(-1))`."""
    return Reminder(anchor, offset(by) if isinstance(by, str) else by)
