"""Where a series of occurrences begins, ends and has holes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from duebox.when.business import LONGEST_CLOSURE, Calendar
from duebox.when.errors import WhenError
from duebox.when.occurrence import SECOND, Occurrence
from duebox.when.rules.rrule import Recurrence
from duebox.when.rules.rrule_text import Parts
from duebox.when.times import A_DAY, short

# A local time and its instant are never further apart than offset, gap and closed days together.
_SLACK = 3 * A_DAY + LONGEST_CLOSURE
_PATIENCE = timedelta(days=3660)


def recurrence_limits(found: Iterator[Occurrence], rule: Recurrence) -> Iterator[Occurrence]:
    """What COUNT, UNTIL and EXDATE leave of a recurrence, in that order: an EXDATE has been counted."""
    if rule.parts.count is not None:
        found = _first_instances(found, rule.parts.count)
    if rule.parts.until is not None:
        found = _until(found, rule.parts, rule.parts.until)
    if rule.exdates:
        left_out = frozenset(rule.exdates)
        found = (one for one in found if not left_out & {one.nominal, one.nominal.date(), one.instant})
    return found


def from_start(found: Iterator[Occurrence], start: datetime | None) -> Iterator[Occurrence]:
    """The occurrences at or after a bound, local if naive."""
    if start is None:
        return found
    if start.tzinfo is None:
        return (one for one in found if one.nominal >= start)
    return (one for one in found if one.instant >= start)


def before_end(found: Iterator[Occurrence], end: datetime | None) -> Iterator[Occurrence]:
    """The occurrences before a bound, local if naive."""
    last = None if end is None else _latest_instant(end)
    for one in found:
        if end is not None and last is not None:
            if one.instant > last:
                return
            if (one.nominal if end.tzinfo is None else one.instant) >= end:
                continue
        yield one


def on_open_days(found: Iterator[Occurrence], of: Calendar) -> Iterator[Occurrence]:
    """The occurrences on business days; a series that meets none for ten years is refused."""
    last_open: datetime | None = None
    for one in found:
        last_open = last_open or one.instant
        if of.is_business_day(one.nominal.date()):
            last_open = one.instant
            yield one
        elif one.instant - last_open > _PATIENCE:
            raise WhenError(
                f"Every occurrence up to {short(one.nominal)} falls on a closed day; "
                "change the rule, or use closed='forward'."
            )


def _first_instances(found: Iterator[Occurrence], count: int) -> Iterator[Occurrence]:
    # Both readings of a repeated time are one instance, and they may not follow each other directly.
    seen: set[str] = set()
    last: datetime | None = None
    for one in found:
        name = one.key.removesuffix(SECOND)
        if name not in seen:
            if len(seen) == count:
                if last and one.instant - last > A_DAY:
                    return
                continue
            seen.add(name)
        last = one.instant
        yield one


def _until(found: Iterator[Occurrence], parts: Parts, until: datetime) -> Iterator[Occurrence]:
    last = _latest_instant(until + A_DAY)
    for one in found:
        if one.instant > last:
            return
        if parts.until_is_day:
            kept = one.nominal.date() <= until.date()
        else:
            kept = (one.nominal if until.tzinfo is None else one.instant) <= until
        if kept:
            yield one


def _latest_instant(bound: datetime) -> datetime:
    return bound if bound.tzinfo else bound.replace(tzinfo=UTC) + _SLACK
