"""Cron expressions of five fields, read as Debian's cron reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar

from cronsim import CronSim, CronSimError

from duebox.when.errors import InvalidRule
from duebox.when.occurrence import Nominal
from duebox.when.policy import choose
from duebox.when.rules.base import WallRule
from duebox.when.times import LAST_YEAR

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ANY_DAY = datetime(2000, 1, 1)


class Clock(StrEnum):
    """Whether a cron expression names times of day or paces real time."""

    WALL = "wall"
    ELAPSED = "elapsed"


@dataclass(frozen=True, slots=True)
class Cron(WallRule):
    """A cron expression. With an hour of `*` or `*/n` it runs on elapsed time, else by the gap and fold policies.

    On elapsed time it runs each time a clock shows a matching minute: not in a gap, twice in a fold, so that
    `*/15 * * * *` stays a quarter of an hour apart all year.
    """

    kind: ClassVar[str] = "cron"
    expression: str
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidRule(
                f"Cron expression {self.expression!r} is not a text; write five fields, as in cron('30 9 * * MON-FRI')."
            )
        text = " ".join(self.expression.split())
        text = MACROS.get(text.casefold(), text)
        _check(text)
        wildcard = text.split()[1].startswith("*")
        natural = Clock.ELAPSED if wildcard else Clock.WALL
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "clock", natural if self.clock is None else choose(Clock, self.clock))

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The matching local times after a local time."""
        # cronsim never sees a zone: its own idea of gaps and folds would replace the user's.
        for local in CronSim(self.expression, after):
            if local.year > LAST_YEAR:
                return
            yield Nominal(local)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        assert self.clock is not None
        return {"expression": self.expression, "clock": self.clock.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Cron:
        """The rule again."""
        return cls(data["expression"], data.get("clock"))


def cron(expression: str, *, clock: Clock | str | None = None) -> Cron:
    """A five-field cron expression: `cron("30 9 * * MON-FRI")`; `clock` overrules how it meets gaps and folds."""
    return Cron(expression, None if clock is None else choose(Clock, clock))


@lru_cache(maxsize=4096)
def _check(expression: str) -> None:
    fields = len(expression.split())
    if fields != 5:
        raise InvalidRule(
            f"Cron expression {expression!r} has {fields} fields, not five; "
            "write minute, hour, day of month, month, day of week (a minute is the finest step)."
        )
    try:
        first = next(iter(CronSim(expression, _ANY_DAY)), None)
    except (CronSimError, ValueError) as error:  # ValueError: a number of more digits than Python reads
        shown = expression if len(expression) <= 100 else f"{expression[:100]}..."
        raise InvalidRule(f"Cron expression {shown!r} is wrong: {error}; correct that field.") from None
    if first is None:
        raise InvalidRule(f"Cron expression {expression!r} never matches a date; correct its day or month.")
