"""Recurrence rules of RFC 5545 and 7529: text, a first local time, and the times left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from duebox.when.errors import InvalidRule
from duebox.when.occurrence import Nominal
from duebox.when.policy import Leap, choose
from duebox.when.rules import rrule_hourly, rrule_skip
from duebox.when.rules.base import ElapsedRule, Rule, WallRule
from duebox.when.rules.rrule_lines import Exdate, read_exdate, read_lines, write_exdate
from duebox.when.rules.rrule_near import first_match, locals_from_near
from duebox.when.rules.rrule_text import ELAPSED_FREQUENCIES, Parts, canonical, parse
from duebox.when.times import A_DAY, LAST_INSTANT, read, wall, write

# The end of a COUNT is found by a walk, once in each process: 10,000 occurrences take about 0.1 s.
MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence(Rule):
    """What all recurrence rules hold.

    An EXDATE is a local time, an instant, or a date that leaves a whole local day out. It counts toward COUNT;
    a time skipped by the gap policy does not.
    """

    kind: ClassVar[str] = "rrule"
    text: str
    start: datetime
    exdates: tuple[Exdate, ...] = ()
    leap: Leap = Leap.OMIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", canonical(self.text))
        object.__setattr__(self, "start", wall(self.start, "The rule's start").replace(microsecond=0))
        object.__setattr__(self, "leap", self.parts.leap or choose(Leap, self.leap))
        _check(self.text, self.start, self.leap)

    @property
    def parts(self) -> Parts:
        """The rule text taken apart."""
        return parse(self.text)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data."""
        found: dict[str, Any] = {"text": self.text, "start": write(self.start), "leap": self.leap.value}
        return found | ({"exdates": [write_exdate(one) for one in self.exdates]} if self.exdates else {})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RRule | HourlyRRule:
        """The rule again."""
        return rrule(
            data["text"],
            start=read(data["start"]),
            exdates=data.get("exdates", ()),
            leap=data.get("leap", Leap.OMIT),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RRule(Recurrence, WallRule):
    """A daily or coarser rule: it keeps the wall clock."""

    def nominals(self, after: datetime) -> Iterator[Nominal]:
        """The local times after a local time, before COUNT, UNTIL and EXDATE have their say."""
        if self.leap is not Leap.OMIT and rrule_skip.can_miss(self.parts):
            return rrule_skip.expand(self.parts, self.start, self.leap, after)
        return map(Nominal, locals_from_near(self.parts, self.start, after))


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyRRule(Recurrence, ElapsedRule):
    """An hourly or finer rule: it runs on elapsed time."""

    def instants(self, after: datetime, rules: ZoneInfo) -> Iterator[datetime]:
        """The instants after an instant, before COUNT, UNTIL and EXDATE have their say."""
        return rrule_hourly.instants(self.parts, self.start, after, rules)

    def last_by_arithmetic(self, rules: ZoneInfo) -> datetime | None:
        """The last instant of a COUNT, where no filter stands in the way of calculating it."""
        if self.parts.count is None or rrule_hourly.is_filtered(self.parts):
            return None
        first, step = rrule_hourly.first_instant(self.start, rules), rrule_hourly.step_of(self.parts)
        return first + min(self.parts.count - 1, (LAST_INSTANT - first) // step) * step


def rrule(
    text: str,
    *,
    start: datetime | None = None,
    exdates: Sequence[Exdate | str] = (),
    leap: Leap | str = Leap.OMIT,
) -> RRule | HourlyRRule:
    """A recurrence rule: `rrule("FREQ=WEEKLY;BYDAY=MO", start=datetime(2026, 1, 5, 9))`.

    The text may also be several lines with DTSTART, RRULE and EXDATE in local time. `leap` is what SKIP says in
    the text: months and years without the date leave it out, or move it back or forward.
    """
    lines = read_lines(text)
    begin = start or lines.start
    if begin is None:
        raise InvalidRule(f"Rule {lines.rule!r} has no first local time; pass start=datetime(...).")
    kind = HourlyRRule if parse(canonical(lines.rule)).freq in ELAPSED_FREQUENCIES else RRule
    left_out = tuple(map(read_exdate, (*exdates, *lines.exdates)))
    return kind(text=lines.rule, start=begin, exdates=left_out, leap=choose(Leap, leap))


@lru_cache(maxsize=4096)
def _check(text: str, start: datetime, leap: Leap) -> None:
    parts = parse(text)
    by_arithmetic = parts.freq in ELAPSED_FREQUENCIES and not rrule_hourly.is_filtered(parts)
    if parts.count is not None and parts.count > MAX_COUNT and not by_arithmetic:
        raise InvalidRule(f"COUNT={parts.count} is more than {MAX_COUNT:,}, which takes long to count; use UNTIL.")
    first = _first(parts, start, leap)
    if first is None:
        raise InvalidRule(f"Rule {text!r} from {write(start)} never matches; correct its BY parts.")
    # UNTIL may be in UTC and the zone is not known here: within a day of it the rule gets the benefit of the doubt.
    if parts.until and first > parts.until.replace(tzinfo=None) + A_DAY:
        raise InvalidRule(f"Rule {text!r} ends before its first match, {write(first)}; move UNTIL.")


def _first(parts: Parts, start: datetime, leap: Leap) -> datetime | None:
    if parts.freq in ELAPSED_FREQUENCIES:
        rrule_hourly.check(parts, start)
        return start
    if leap is not Leap.OMIT and rrule_skip.can_miss(parts):
        found = next(rrule_skip.expand(parts, start, leap, datetime.min), None)
        return found.local if found else None
    return first_match(parts, start)
