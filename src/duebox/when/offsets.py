"""Before and after an anchor: calendar units move the date, exact units move the instant.

A day before 10:00 is 10:00 the day before, though 23 or 25 hours may lie between; 24 hours before is not that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from duebox.when.errors import WhenError
from duebox.when.occurrence import Occurrence
from duebox.when.policy import Fold, Gap, Leap
from duebox.when.resolver import How, Resolved, local_time, resolve
from duebox.when.rules.leap import date_in_month
from duebox.when.times import FIRST_YEAR, LAST_YEAR, NO_TIME, elapsed, instant

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
        """How long it is, a day being 24 hours and a month 30 days: for policies, never for finding an instant."""
        return abs(timedelta(days=30 * self.months + self.days) + self.exact)

    def move(self, local: datetime) -> datetime:
        """A local time moved by the calendar units alone; a date the month lacks becomes its last day."""
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
    """Calendar days: the same time of day, be the days between 23, 24 or 25 hours long."""
    return Offset(days=count)


def hours(count: int) -> Offset:
    """Exact hours of elapsed time."""
    return Offset(exact=elapsed("The offset", hours=count))


def minutes(count: int) -> Offset:
    """Exact minutes of elapsed time."""
    return Offset(exact=elapsed("The offset", minutes=count))


def at_offset(
    anchor: datetime,
    by: Offset,
    zone: str,
    *,
    gap: Gap | str = Gap.SHIFT_FORWARD,
    fold: Fold | str = Fold.FIRST,
) -> Occurrence | None:
    """The occurrence at an offset from an anchor, which is local if naive; None when `gap` skips it.

    First the calendar units move the local date and the policies find its instant, then the exact units move that.
    """
    base = _base(anchor, by, zone, gap, fold)
    if base is None:
        return None
    try:
        at = instant(base.instant + by.exact)
    except OverflowError:
        raise WhenError(f"{by} from {anchor} leads out of the years {FIRST_YEAR} to {LAST_YEAR}.") from None
    local = anchor if anchor.tzinfo is None else local_time(anchor, zone)
    nominal = local_time(at, zone) if by.exact else by.move(local)
    return Occurrence(str(by), nominal, at, base.how)


def _base(anchor: datetime, by: Offset, zone: str, gap: Gap | str, fold: Fold | str) -> Resolved | None:
    if anchor.tzinfo is not None and not (by.months or by.days):
        return Resolved(instant(anchor), How.EXACT)
    local = anchor if anchor.tzinfo is None else local_time(anchor, zone)
    return next(iter(resolve(by.move(local), zone, gap=gap, fold=fold)), None)


def _text(*units: tuple[int, str]) -> str:
    return "".join(f"{count}{unit}" for count, unit in units if count)
