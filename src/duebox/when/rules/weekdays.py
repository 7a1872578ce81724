"""Days of the week: Monday is 0, as Python counts."""

from __future__ import annotations

from collections.abc import Iterable

from duebox.when.errors import InvalidRule

NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def weekday(name: int | str) -> int:
    """The number of a day given as 0 to 6, "MO", "mon" or "Monday"."""
    if isinstance(name, int) and 0 <= name <= 6:
        return name
    wanted = str(name).strip().casefold()
    for number, full in enumerate(NAMES):
        if len(wanted) >= 2 and full.casefold().startswith(wanted):
            return number
    raise InvalidRule(f"Weekday {name!r} does not exist; use names such as 'mon' or 'Monday'.")


def weekday_set(names: Iterable[int | str]) -> tuple[int, ...]:
    """Several days, in the order of the week, each once."""
    found = tuple(sorted({weekday(name) for name in names}))
    if not found:
        raise InvalidRule("The rule names no weekday; give at least one, such as 'mon'.")
    return found
