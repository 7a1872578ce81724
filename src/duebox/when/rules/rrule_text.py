"""Reading RFC 5545 recurrence text: what it may say, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from duebox.when.errors import InvalidRule
from duebox.when.policy import Leap, choose
from duebox.when.rules.weekdays import CODES
from duebox.when.times import read

WALL_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
ELAPSED_FREQUENCIES = ("HOURLY", "MINUTELY")

# Lowest and highest absolute value, and whether counting from the end is meant by a minus.
_RANGES = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_PARTS = {*_RANGES, "FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "RSCALE", "SKIP"}
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


@dataclass(frozen=True, slots=True)
class Parts:
    """A recurrence rule taken apart. `until` is aware if it was given in UTC."""

    freq: str
    interval: int
    count: int | None
    until: datetime | None
    until_is_day: bool
    leap: Leap | None
    by: dict[str, tuple[str, ...]]

    def numbers(self, name: str) -> tuple[int, ...]:
        """The numbers of one BY part; none if it is absent."""
        return tuple(int(value) for value in self.by.get(name, ()))

    def endless(self) -> str:
        """The rule text without its limits and without what only RFC 7529 knows."""
        by = (f"{name}={','.join(values)}" for name, values in self.by.items())
        return ";".join([f"FREQ={self.freq}", f"INTERVAL={self.interval}", *by])


@lru_cache(maxsize=4096)
def parse(text: str) -> Parts:
    """Take a rule such as FREQ=WEEKLY;BYDAY=MO apart, or refuse it and say which part."""
    given = _split(text)
    freq = _frequency(text, given)
    if "COUNT" in given and "UNTIL" in given:
        raise InvalidRule(f"Rule {text!r} has both COUNT and UNTIL; keep one of them.")
    if given.get("RSCALE", "GREGORIAN") != "GREGORIAN":
        raise InvalidRule(f"Calendar RSCALE={given['RSCALE']} is not offered; use RSCALE=GREGORIAN.")
    until = given.get("UNTIL")
    return Parts(
        freq=freq,
        interval=_natural(given.get("INTERVAL", "1"), "INTERVAL"),
        count=_natural(given["COUNT"], "COUNT") if "COUNT" in given else None,
        until=None if until is None else read(until, "UNTIL"),
        until_is_day=until is not None and "T" not in until,
        leap=choose(Leap, given["SKIP"].lower()) if "SKIP" in given else None,
        by={name: _values(name, value) for name, value in given.items() if name.startswith("BY") or name == "WKST"},
    )


def canonical(text: str) -> str:
    """The same rule in capitals, without its RRULE: prefix and without spaces."""
    return "".join(str(text).split()).upper().removeprefix("RRULE:").strip(";")


def _split(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise InvalidRule(f"Rule part {part!r} in {text!r} is not NAME=VALUE; correct or remove it.")
        if name not in _PARTS:
            raise InvalidRule(f"Rule part {name} in {text!r} is unknown; remove it.")
        if name in found:
            raise InvalidRule(f"Rule part {name} stands twice in {text!r}; join them with a comma.")
        found[name] = value
    return found


def _frequency(text: str, given: dict[str, str]) -> str:
    freq = given.get("FREQ", "")
    if freq == "SECONDLY":
        raise InvalidRule(f"Rule {text!r} runs by the second; use FREQ=MINUTELY or coarser.")
    if freq not in WALL_FREQUENCIES + ELAPSED_FREQUENCIES:
        raise InvalidRule(f"Rule {text!r} has FREQ={freq or '(none)'}; use one of {', '.join(WALL_FREQUENCIES)}.")
    return freq


def _natural(value: str, name: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InvalidRule(f"{name}={value} is no count; use a whole number from 1.")
    return int(value)


def _values(name: str, text: str) -> tuple[str, ...]:
    values = tuple(text.split(","))
    for value in values:
        if not _allowed(name, value):
            raise InvalidRule(f"{name}={value} is out of range; correct or remove it.")
    return values


def _allowed(name: str, value: str) -> bool:
    if name == "WKST":
        return value in CODES
    if name == "BYDAY":
        return _DAY.fullmatch(value) is not None
    low, high, signed = _RANGES.get(name, (0, -1, False))
    if not re.fullmatch(r"[+-]?\d{1,3}" if signed else r"\d{1,2}", value):
        return False
    return low <= abs(int(value)) <= high
