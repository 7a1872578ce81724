"""Small pieces of English."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time, timedelta

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def joined(words: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def ordinal(number: int) -> str:
    """1st, 2nd, last, 2nd last."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{ordinal(-number)} last"
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def every_unit(count: int, unit: str) -> str:
    """Every day, every 2 days."""
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def length(span: timedelta) -> str:
    """A duration in its largest whole unit: 6 hours, 90 minutes; the unit alone for one of it."""
    seconds = int(span.total_seconds())
    name, size = next(((name, size) for name, size in _UNITS if seconds % size == 0), _UNITS[-1])
    count = seconds // size
    return name if count == 1 else f"{count} {name}s"


def clock_times(times: Sequence[time]) -> str:
    """09:00 and 17:30."""
    return joined([one.isoformat(timespec="auto" if one.second else "minutes") for one in times])


def month_day(month: int, day: int) -> str:
    """February 29."""
    return f"{MONTHS[month - 1]} {day}"
