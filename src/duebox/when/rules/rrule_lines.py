"""The lines around a recurrence rule: DTSTART and EXDATE."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from duebox.when.errors import InvalidRule
from duebox.when.times import instant, read, wall, write

Exdate = datetime | date


@dataclass(frozen=True, slots=True)
class Lines:
    """What a block of recurrence text holds."""

    rule: str
    start: datetime | None = None
    exdates: tuple[Exdate, ...] = ()


def read_lines(text: str) -> Lines:
    """Take a block of lines apart; a single line is the rule alone."""
    rule, start, exdates = "", None, []
    for line in filter(None, map(str.strip, str(text).splitlines())):
        head, _, value = line.rpartition(":")
        name = head.partition(";")[0].upper()
        if "TZID" in head.upper():
            raise InvalidRule(f"Line {line!r} carries its own zone; leave TZID out and give the zone separately.")
        if name == "DTSTART":
            start = wall(read(value, "DTSTART"), "DTSTART")
        elif name == "EXDATE":
            exdates += [read_exdate(one) for one in value.split(",")]
        elif name in ("", "RRULE") and not rule:
            rule = value
        else:
            raise InvalidRule(f"Line {line!r} is not offered; use DTSTART, one RRULE and EXDATE.")
    return Lines(rule, start, tuple(exdates))


def read_exdate(value: Exdate | str) -> Exdate:
    """A time left out: text without a time of day is a whole date."""
    if isinstance(value, str):
        moment = read(value, "EXDATE")
        return moment if "T" in value.upper() or " " in value else moment.date()
    if not isinstance(value, datetime):
        return value
    return wall(value) if value.tzinfo is None else instant(value)


def write_exdate(value: Exdate) -> str:
    """The same as text."""
    return write(value) if isinstance(value, datetime) else value.isoformat()
