"""Parse RFC 5545 recurrence text: RRULE, DTSTART and EXDATE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

from duebox.when.errors import InvalidRule
from duebox.when.policy import Leap, choose
from duebox.when.rules import CODES
from duebox.when.times import LAST_YEAR, instant, read, wall

WALL_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
ELAPSED_FREQUENCIES = ("HOURLY", "MINUTELY")

# Lowest and highest absolute value, and whether a minus counts from the end.
_RANGES = {
    "BYSECOND": (0, 59, False), "BYMINUTE": (0, 59, False), "BYHOUR": (0, 23, False), "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True), "BYWEEKNO": (1, 53, True), "BYMONTH": (1, 12, False), "BYSETPOS": (1, 366, True),
}  # fmt: skip
_PARTS = {*_RANGES, "FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "RSCALE", "SKIP"}
_LARGEST = {"INTERVAL": 1_000_000, "COUNT": 1_000_000_000}
_NATURAL = re.compile(r"[0-9]{1,12}")
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a recurrence rule. `until` is aware if it was written in UTC."""

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

    def endless(self, without: tuple[str, ...] = ()) -> str:
        """The rule text without its limits, without these parts and without those of RFC 7529."""
        by = (f"{name}={','.join(values)}" for name, values in self.by.items() if name not in without)
        return ";".join([f"FREQ={self.freq}", f"INTERVAL={self.interval}", *by])


@lru_cache(maxsize=4096)
def parse(text: str) -> Parts:
    """The parts of a rule such as FREQ=WEEKLY;BYDAY=MO. The error names the part that is wrong."""
    named = _split(text)
    freq = named.get("FREQ", "")
    if freq == "SECONDLY":
        raise InvalidRule(f"Rule {text!r} runs by the second; use FREQ=MINUTELY or coarser.")
    if freq not in WALL_FREQUENCIES + ELAPSED_FREQUENCIES:
        raise InvalidRule(f"Rule {text!r} has FREQ={freq or '(none)'}; use one of {', '.join(WALL_FREQUENCIES)}.")
    if "COUNT" in named and "UNTIL" in named:
        raise InvalidRule(f"Rule {text!r} has both COUNT and UNTIL; keep one of them.")
    if named.get("RSCALE", "GREGORIAN") != "GREGORIAN":
        raise InvalidRule(f"Calendar RSCALE={named['RSCALE']} is not supported; use RSCALE=GREGORIAN.")
    until = named.get("UNTIL")
    last = None if until is None else read(until, "UNTIL")
    by = {name: _values(name, value) for name, value in named.items() if name.startswith("BY") or name == "WKST"}
    _check_weekday_numbers(freq, by)
    return Parts(
        freq=freq,
        interval=_natural(named.get("INTERVAL", "1"), "INTERVAL"),
        count=_natural(named["COUNT"], "COUNT") if "COUNT" in named else None,
        # 99991231T235959Z is a common way to write "without an end".
        until=None if last is None or last.year >= LAST_YEAR else last,
        until_is_day=until is not None and "T" not in until,
        leap=choose(Leap, named["SKIP"].lower()) if "SKIP" in named else None,
        by=by,
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
            raise InvalidRule(f"Rule part {name} is repeated in {text!r}; join them with a comma.")
        found[name] = value
    return found


def _natural(value: str, name: str) -> int:
    if not _NATURAL.fullmatch(value) or not 1 <= int(value) <= _LARGEST[name]:
        raise InvalidRule(f"{name}={value[:20]} is out of range; use a whole number from 1 to {_LARGEST[name]}.")
    return int(value)


def _check_weekday_numbers(freq: str, by: dict[str, tuple[str, ...]]) -> None:
    """The 20th Monday exists in a year, not in a month; and a day or week has no second Monday."""
    if freq == "MONTHLY" or (freq == "YEARLY" and "BYMONTH" in by):
        largest = 5
    else:
        largest = 53 if freq == "YEARLY" and "BYWEEKNO" not in by else 0
    for value in by.get("BYDAY", ()):
        number = abs(int(value[:-2] or 0))
        if number > largest and (largest or freq in WALL_FREQUENCIES):
            allowed = f"use numbers from 1 to {largest}" if largest else f"leave the number out: BYDAY={value[-2:]}"
            raise InvalidRule(f"BYDAY={value} does not exist with FREQ={freq}; {allowed}.")


def _values(name: str, text: str) -> tuple[str, ...]:
    values = tuple(text.split(","))
    for value in values:
        if name in ("WKST", "BYDAY"):
            allowed = value in CODES or (name == "BYDAY" and _DAY.fullmatch(value) is not None)
        else:
            low, high, signed = _RANGES[name]
            digits = re.fullmatch(r"[+-]?\d{1,3}" if signed else r"\d{1,2}", value)
            allowed = digits is not None and low <= abs(int(value)) <= high
        if not allowed:
            raise InvalidRule(f"{name}={value} is out of range; correct or remove it.")
    return values


Exdate = datetime | date


def read_lines(text: str) -> tuple[str, datetime | None, list[Exdate]]:
    """The rule, the start and the excluded times of a block of lines; a single line is the rule alone."""
    rule, start, exdates = "", None, list[Exdate]()
    for line in filter(None, map(str.strip, str(text).splitlines())):
        head, _, value = line.rpartition(":")
        name = head.partition(";")[0].upper()
        if "TZID" in head.upper():
            raise InvalidRule(f"Line {line!r} has its own zone; leave TZID out and pass the zone separately.")
        if name == "DTSTART":
            start = wall(read(value, "DTSTART"), "DTSTART")
        elif name == "EXDATE":
            exdates += [read_exdate(one) for one in value.split(",")]
        elif name in ("", "RRULE") and not rule:
            rule = value
        else:
            raise InvalidRule(f"Line {line!r} is not supported; use DTSTART, one RRULE and EXDATE.")
    return rule, start, exdates


def read_exdate(value: Exdate | str) -> Exdate:
    """An excluded time; text without a time of day is a whole date."""
    if isinstance(value, str):
        moment = read(value, "EXDATE")
        return moment if "T" in value.upper() or " " in value else moment.date()
    if not isinstance(value, datetime):
        return value
    return wall(value) if value.tzinfo is None else instant(value)
