"""Two kinds of time: naive local (what a wall clock shows) and UTC (an instant).

Aware local datetimes are converted to UTC at once: Python compares and subtracts them by their wall clock when the
zones are equal, which is wrong twice a year.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from duebox.when.errors import WrongKindOfTime

A_DAY = timedelta(days=1)
A_WEEK = timedelta(days=7)
NO_TIME = timedelta(0)
# Outside of these years a local time may have no UTC counterpart in Python's calendar.
FIRST_YEAR, LAST_YEAR = 2, 9998
LAST_DAY = date(LAST_YEAR, 12, 31).toordinal()
FIRST_INSTANT = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) - timedelta.resolution


def instant(value: datetime, what: str = "This time") -> datetime:
    """The UTC instant of an aware datetime; a naive one is refused."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise WrongKindOfTime(
            f"{what} is {value!r}, which names no instant; pass an aware datetime, "
            "such as datetime(2026, 3, 8, 9, tzinfo=UTC)."
        )
    try:
        found = value.astimezone(UTC)
    except OverflowError:
        raise _outside_the_calendar(value, what) from None
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise _outside_the_calendar(value, what)
    return found


def nearest_instant(value: datetime, what: str = "This time") -> datetime:
    """The same for queries: a time outside the calendar becomes its first or last instant."""
    try:
        return instant(value, what)
    except WrongKindOfTime:
        if isinstance(value, datetime) and value.utcoffset() is not None:
            return FIRST_INSTANT if value.year <= FIRST_YEAR else LAST_INSTANT
        raise


def wall(value: datetime, what: str = "This time") -> datetime:
    """A naive local datetime; an aware one is refused."""
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise WrongKindOfTime(
            f"{what} is {value!r}, which is not a naive local time; pass a naive datetime "
            "such as datetime(2026, 3, 8, 9) and give the zone separately."
        )
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise _outside_the_calendar(value, what)
    # The fold policy decides which of two instants is meant, not the value.
    return value.replace(fold=0)


def _outside_the_calendar(value: datetime, what: str) -> WrongKindOfTime:
    return WrongKindOfTime(f"{what} is {value}; use a time in the years {FIRST_YEAR} to {LAST_YEAR}.")


def day(value: date | str, what: str = "This date") -> date:
    """A plain calendar date, or its ISO text."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise WrongKindOfTime(f"{what} is {value!r}, not a date; write it as 2026-03-08.") from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise WrongKindOfTime(f"{what} is {value!r}, not a plain date; pass a date such as date(2026, 3, 8).")
    return value


def time_of_day(value: time | str, what: str = "This time of day") -> time:
    """A naive time of day, or its ISO text such as 09:00."""
    if isinstance(value, str):
        try:
            return _read_time(value)
        except ValueError:
            raise WrongKindOfTime(f"{what} is {value!r}, not a time of day; write it as 09:00.") from None
    if not isinstance(value, time) or value.tzinfo is not None:
        raise WrongKindOfTime(
            f"{what} is {value!r}, not a naive time of day; pass time(9) and give the zone separately."
        )
    return value.replace(fold=0)


@lru_cache(maxsize=2_000)
def _read_time(text: str) -> time:
    found = time.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return found


def times_of_day(value: time | str | tuple[time | str, ...] | list[str], what: str = "at") -> tuple[time, ...]:
    """One or more times of day, sorted, each once."""
    if isinstance(value, time | str):
        return (time_of_day(value, what),)
    try:
        times = tuple(value)
    except TypeError:
        raise WrongKindOfTime(
            f"{what} is {value!r}, not a time of day; write it as '09:00', pass time(9), or several of them in a tuple."
        ) from None
    if not times:
        raise WrongKindOfTime(f"{what} is empty; give at least one time of day such as 09:00.")
    return tuple(sorted({time_of_day(one, what) for one in times}))


def elapsed(what: str, **units: float) -> timedelta:
    """A `timedelta` from numbers of its units."""
    for unit, count in units.items():
        if not isinstance(count, int | float) or isinstance(count, bool):
            raise WrongKindOfTime(f"{what} has {unit}={count!r}, not a number; write it as {unit}=5.")
    try:
        return timedelta(**units)
    except (OverflowError, ValueError) as error:
        raise WrongKindOfTime(f"{what} cannot be used: {error}; use smaller numbers.") from None


def write(value: datetime) -> str:
    """A datetime as JSON text; instants end in Z."""
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def read(text: str, what: str = "This time") -> datetime:
    """The datetime in ISO text, short form included: aware (UTC) if it carries an offset, else naive."""
    try:
        value = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise WrongKindOfTime(f"{what} is {text!r}, not a time; write it as 2026-03-08T09:00:00.") from None
    return value if value.tzinfo is None else nearest_instant(value, what)


@lru_cache(maxsize=20_000)
def short(value: datetime) -> str:
    """Local text without trailing zero seconds, for keys and people."""
    return value.isoformat(timespec="auto" if value.second or value.microsecond else "minutes")
