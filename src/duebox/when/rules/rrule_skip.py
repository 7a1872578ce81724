"""RFC 7529 SKIP: monthly and yearly rules whose missing dates move instead of vanishing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from itertools import product

from duebox.when.occurrence import Moved, Nominal
from duebox.when.policy import Leap
from duebox.when.rules.leap import date_in_month
from duebox.when.rules.rrule_near import times_of_day
from duebox.when.rules.rrule_text import Parts
from duebox.when.rules.weekdays import CODES
from duebox.when.times import LAST_YEAR


def can_miss(parts: Parts) -> bool:
    """Whether the rule can name a date that a month lacks; all others have nothing to move."""
    if parts.freq not in ("MONTHLY", "YEARLY") or {"BYYEARDAY", "BYWEEKNO"} & parts.by.keys():
        return False
    return "BYMONTHDAY" in parts.by or "BYDAY" not in parts.by


def expand(parts: Parts, start: datetime, leap: Leap, after: datetime) -> Iterator[Nominal]:
    """The rule's local times after a local time, missing dates moved."""
    times = times_of_day(parts, start)
    last = max(after, start.replace(microsecond=0) - datetime.resolution)
    for months in _periods(parts, start, after):
        dates = _dates(parts, start, leap, months)
        instances = [(datetime.combine(found, at), moved) for (found, moved), at in product(dates.items(), times)]
        for local, moved in _at_positions(instances, parts.numbers("BYSETPOS")):
            # Two dates moved onto one day are one instance.
            if local > last:
                last = local
                yield Nominal(local, moved=Moved.LEAP if moved else None)


def _periods(parts: Parts, start: datetime, after: datetime) -> Iterator[list[tuple[int, int]]]:
    step = parts.interval * (12 if parts.freq == "YEARLY" else 1)
    first = start.year * 12 + (start.month - 1 if parts.freq == "MONTHLY" else 0)
    # One month back: a date moved forward lies in the month after its period.
    wanted = after.year * 12 + after.month - 2
    month = first + max(0, (wanted - first) // step) * step
    while month // 12 <= LAST_YEAR:
        span = range(12) if parts.freq == "YEARLY" else range(1)
        yield [((month + ahead) // 12, (month + ahead) % 12 + 1) for ahead in span]
        month += step


def _dates(parts: Parts, start: datetime, leap: Leap, months: list[tuple[int, int]]) -> dict[date, bool]:
    wanted = parts.numbers("BYMONTH") or ((start.month,) if _implied(parts) else ())
    numbers = parts.numbers("BYMONTHDAY") or (start.day,)
    weekdays = {CODES.index(code[-2:]) for code in parts.by.get("BYDAY", ())}
    found: dict[date, bool] = {}
    for (year, month), number in product(months, numbers):
        if wanted and month not in wanted:
            continue
        landed = date_in_month(year, month, number, leap)
        if landed and (not weekdays or landed.weekday() in weekdays):
            moved = landed.day != number > 0
            found[landed] = found.get(landed, True) and moved
    return dict(sorted(found.items()))


def _implied(parts: Parts) -> bool:
    return parts.freq == "YEARLY" and "BYMONTHDAY" not in parts.by


def _at_positions(instances: list[tuple[datetime, bool]], positions: tuple[int, ...]) -> list[tuple[datetime, bool]]:
    if not positions:
        return instances
    count = len(instances)
    picked = {at - 1 if at > 0 else count + at for at in positions}
    return [instances[at] for at in sorted(picked) if 0 <= at < count]
