"""Offsets before and after an anchor, and dates that a month does not have.

Calendar units move the date, exact units move the instant: a day before 10:00 is 10:00 the day before, even if 23 or 25
hours are between; 24 hours before may be another time of day.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duebox.when.errors import WhenError
from duebox.when.policy import Fold, Gap, Leap
from duebox.when.resolver import How, Occurrence, Resolved, local_time, resolve
from duebox.when.times import FIRST_YEAR, LAST_YEAR, NO_TIME, elapsed, instant


def date_in_month(year: int, month: int, number: int, leap: Leap) -> date | None:
    """Day `number` of a month, negative counting from its end; a missing one by policy.

    Computed from the number that the user gave: adding months one by one would turn the 31st into the 28th for good.
    """
    if 1 <= number <= 28:
        return date(year, month, number)
    length = monthrange(year, month)[1]
    if 1 <= number <= length:
        return date(year, month, number)
    if -length <= number < 0:
        return date(year, month, length + 1 + number)
    # A day counted from the end of the month that falls before its start has no neighbour to move to.
    if number < 0 or leap is Leap.OMIT:
        return None
    if leap is Leap.BACKWARD:
        return date(year, month, length)
    return date(year + month // 12, month % 12 + 1, 1)


_ISO = re.compile(
    r"(?P<sign>[+-]?)P(?=.)(?:(?P<years>\d{1,9})Y)?(?:(?P<months>\d{1,9})M)?(?:(?P<weeks>\d{1,9})W)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9})S)?)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A distance from an anchor: months and days by the calendar, `exact` in elapsed time; negative is before."""

    months: int = 0
    days: int = 0
    exact: timedelta = NO_TIME

    def __post_init__(self) -> None:
        for unit, count in (("months", self.months), ("days", self.days)):
            if not isinstance(count, int):
                raise WhenError(f"{unit}({count!r}) is not a whole number; write it as {unit}(-1).")
        if not isinstance(self.exact, timedelta):
            raise WhenError(f"exact={self.exact!r} is not a timedelta; use hours(-2) or minutes(-15).")
        signs = {value > 0 for value in (self.months, self.days, self.exact.total_seconds()) if value}
        if len(signs) > 1:
            raise WhenError(f"{self!r} points both before and after its anchor; give all units one direction.")
        if max(abs(self.months) / 12, abs(self.days) / 365, abs(self.exact.days) / 365) > LAST_YEAR:
            raise WhenError(f"{self!r} is longer than the calendar; use a shorter offset.")
        if self.exact.microseconds:
            raise WhenError(f"{self!r} has a fraction of a second; use whole seconds.")

    def __neg__(self) -> Offset:
        return Offset(months=-self.months, days=-self.days, exact=-self.exact)

    def __add__(self, other: Offset) -> Offset:
        return Offset(months=self.months + other.months, days=self.days + other.days, exact=self.exact + other.exact)

    def __str__(self) -> str:
        """ISO 8601 text such as -P1D or -PT2H, which is also how it is stored."""
        hours, rest = divmod(int(abs(self.exact).total_seconds()), 3600)
        date = _text((abs(self.months), "M"), (abs(self.days), "D"))
        time = _text((hours, "H"), (rest // 60, "M"), (rest % 60, "S"))
        return ("-" if self.is_before else "") + "P" + (date + ("T" + time if time else "") or "T0S")

    @property
    def is_before(self) -> bool:
        """Whether it points to before the anchor."""
        return self.months < 0 or self.days < 0 or self.exact < NO_TIME

    @property
    def length(self) -> timedelta:
        """Its length with days of 24 hours and months of 30 days; for policies, never to compute an instant."""
        return abs(timedelta(days=30 * self.months + self.days) + self.exact)

    def move(self, local: datetime) -> datetime:
        """A local time moved by the calendar units; a date that the month lacks becomes its last day."""
        month = local.year * 12 + local.month - 1 + self.months
        if not FIRST_YEAR <= month // 12 <= LAST_YEAR:
            raise self._leads_out(local)
        day = date_in_month(month // 12, month % 12 + 1, local.day, Leap.BACKWARD)
        assert day is not None
        try:
            return datetime.combine(day, local.time()) + timedelta(days=self.days)
        except OverflowError:
            raise self._leads_out(local) from None

    def _leads_out(self, local: datetime) -> WhenError:
        return WhenError(f"{self} from {local} leads out of the years {FIRST_YEAR} to {LAST_YEAR}.")


def offset(text: str) -> Offset:
    """Read ISO 8601 text: -P1D is a calendar day before, -PT24H is 24 hours before."""
    found = _ISO.fullmatch(str(text).strip().upper())
    if found is None:
        raise WhenError(f"Offset {text!r} cannot be read; write it as -P1D, -PT2H or P1W.")
    unit = {name: int(value or 0) for name, value in found.groupdict().items() if name != "sign"}
    ahead = Offset(
        months=unit["years"] * 12 + unit["months"],
        days=unit["weeks"] * 7 + unit["days"],
        exact=timedelta(hours=unit["hours"], minutes=unit["minutes"], seconds=unit["seconds"]),
    )
    return -ahead if found["sign"] == "-" else ahead


def months(count: int) -> Offset:
    """Calendar months."""
    return Offset(months=count)


def weeks(count: int) -> Offset:
    """Calendar weeks: the same weekday and time of day."""
    return Offset(days=7 * days(count).days)


def days(count: int) -> Offset:
    """Calendar days: the same time of day, whether a day has 23, 24 or 25 hours."""
    return Offset(days=count)


def hours(count: int) -> Offset:
    """Exact hours of elapsed time."""
    return Offset(exact=elapsed("The offset", hours=count))


def minutes(count: int) -> Offset:
    """Exact minutes of elapsed time."""
    return Offset(exact=elapsed("The offset", minutes=count))


def at_offset(
    anchor: datetime, by: Offset, zone: str, *, gap: Gap | str = Gap.SHIFT_FORWARD, fold: Fold | str = Fold.FIRST
) -> Occurrence | None:
    """The occurrence at an offset from an anchor, which is local if naive; None when `gap` skips it.

    First the calendar units move the local date and the policies find its instant, then the exact units move that.
    """
    local = anchor if anchor.tzinfo is None else local_time(anchor, zone)
    if anchor.tzinfo is not None and not (by.months or by.days):
        base = Resolved(instant(anchor), How.EXACT)
    elif found := resolve(by.move(local), zone, gap=gap, fold=fold):
        base = found[0]
    else:
        return None
    try:
        at = instant(base.instant + by.exact)
    except OverflowError:
        raise WhenError(f"{by} from {anchor} leads out of the years {FIRST_YEAR} to {LAST_YEAR}.") from None
    nominal = local_time(at, zone) if by.exact else by.move(local)
    return Occurrence(str(by), nominal, at, base.how)


def _text(*units: tuple[int, str]) -> str:
    return "".join(f"{count}{unit}" for count, unit in units if count)
