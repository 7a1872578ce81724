"""The user's intent as one value: which rule, in which zone, by which policies, within which bounds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duebox.when import zones
from duebox.when.business import calendar
from duebox.when.errors import InvalidRule, WhenError
from duebox.when.policy import Closed, Fold, Gap, choose
from duebox.when.rules.anniversary import Anniversary
from duebox.when.rules.base import ElapsedRule, Rule, WallRule
from duebox.when.rules.cron import Cron
from duebox.when.rules.daily import Daily
from duebox.when.rules.every import Every
from duebox.when.rules.monthly import Monthly
from duebox.when.rules.once import Moment, Once
from duebox.when.rules.reminder import Reminder
from duebox.when.rules.rrule import Recurrence
from duebox.when.rules.weekly import Weekly
from duebox.when.times import LAST_YEAR, NO_TIME, instant, read, wall, write

KINDS_OF_RULE: tuple[type[Rule], ...] = (
    Once, Moment, Reminder, Daily, Weekly, Monthly, Anniversary, Every, Cron, Recurrence,
)  # fmt: skip
KINDS: dict[str, type[Rule]] = {kind.kind: kind for kind in KINDS_OF_RULE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When something happens, as the user said it; every instant is derived from it.

    `start` (inclusive) and `end` (exclusive) are local if naive, instants if aware. `remaining` is how many more
    firings are wanted; whoever records a firing lowers it. `flex` delays each schedule by its own share of that
    window. Hourly and finer rules run on elapsed time, where `gap` and `fold` have nothing to decide.

    Without a `zone`, whoever uses the timetable decides: `duebox.schedule` and others take the project's TIME_ZONE.
    Nothing here has a default zone, so a timetable without one cannot be asked for occurrences.
    """

    rule: Rule
    zone: str = ""
    gap: Gap = Gap.SHIFT_FORWARD
    fold: Fold = Fold.FIRST
    start: datetime | None = None
    end: datetime | None = None
    remaining: int | None = None
    calendar: str | None = None
    closed: Closed = Closed.SKIP
    flex: timedelta = NO_TIME

    def __post_init__(self) -> None:
        for name, options in (("gap", Gap), ("fold", Fold), ("closed", Closed)):
            object.__setattr__(self, name, choose(options, getattr(self, name)))
        for name in ("start", "end"):
            object.__setattr__(self, name, _bound(getattr(self, name), name))
        if self.zone != "":
            object.__setattr__(self, "zone", zones.name_of(self.zone))
        self._check()

    def _check(self) -> None:
        if not isinstance(self.rule, WallRule | ElapsedRule | Reminder):
            raise InvalidRule(f"{self.rule!r} is not a rule; use one such as daily('09:00').")
        if self.calendar is not None:
            calendar(self.calendar)
            if self.closed is not Closed.SKIP and not keeps_the_wall_clock(self.rule):
                raise InvalidRule(f"closed={self.closed.value!r} needs a daily or coarser rule; use 'skip'.")
        if self.remaining is not None and self.remaining < 0:
            raise WhenError(f"remaining={self.remaining} is below zero; use 0 or more, or None for no limit.")
        if self.flex < NO_TIME:
            raise WhenError(f"flex={self.flex} is negative; a flex window only delays.")
        if self.start and self.end and _comparable(self.start, self.end) and self.end <= self.start:
            raise WhenError(f"end={write(self.end)} is not after start={write(self.start)}; move one of them.")

    def but_for(self, rule: Rule, zone: str | ZoneInfo) -> Timetable:
        """The same policies and bounds for another rule and zone, which takes a third of the time of a new one."""
        if self.calendar is not None or not isinstance(rule, WallRule | ElapsedRule | Reminder):
            return replace(self, rule=rule, zone=zones.name_of(zone))
        zone = zones.name_of(zone)
        table = object.__new__(Timetable)
        for name in _POLICIES:
            object.__setattr__(table, name, getattr(self, name))
        object.__setattr__(table, "rule", rule)
        object.__setattr__(table, "zone", zone)
        return table

    def or_in(self, zone: str) -> Timetable:
        """The same, in this zone if it has none of its own."""
        return self if self.zone else replace(self, zone=zone)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able data, for the row that keeps the intent; defaults are left out, policies never."""
        found: dict[str, Any] = {"rule": {"kind": self.rule.kind, **self.rule.to_dict()}, "zone": self.zone}
        found |= {"gap": self.gap.value, "fold": self.fold.value}
        found |= {name: write(at) for name in ("start", "end") if (at := getattr(self, name))}
        if self.remaining is not None:
            found["remaining"] = self.remaining
        if self.calendar:
            found |= {"calendar": self.calendar, "closed": self.closed.value}
        if self.flex:
            found["flex"] = self.flex.total_seconds()
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Timetable:
        """The timetable again; a field it does not know is refused rather than forgotten."""
        if unknown := data.keys() - {field.name for field in fields(cls)}:
            raise WhenError(f"Timetable data has unknown {', '.join(sorted(unknown))}; written by a newer release?")
        values = dict(data)
        values["rule"] = rule_from_dict(data["rule"])
        values |= {name: read(data[name]) for name in ("start", "end") if name in data}
        values["flex"] = timedelta(seconds=data.get("flex", 0))
        return cls(**values)


_POLICIES = tuple(field.name for field in fields(Timetable) if field.name not in ("rule", "zone"))


def rule_from_dict(data: dict[str, Any]) -> Rule:
    """A rule from its stored form."""
    kind = KINDS.get(data.get("kind", ""))
    if kind is None:
        raise InvalidRule(f"Rule kind {data.get('kind')!r} does not exist; use one of {', '.join(KINDS)}.")
    return kind.from_dict({name: value for name, value in data.items() if name != "kind"})


def keeps_the_wall_clock(rule: Rule) -> bool:
    """Whether gap and fold policies apply to the rule: daily and coarser, not hourly and finer."""
    return isinstance(rule, WallRule) and not (isinstance(rule, Cron) and rule.clock == "elapsed")


def _bound(value: datetime | None, name: str) -> datetime | None:
    if value is None:
        return None
    if name == "end" and isinstance(value, datetime) and value.year > LAST_YEAR:
        return None  # `datetime.max` means "without an end"
    return wall(value, name) if getattr(value, "tzinfo", None) is None else instant(value, name)


def _comparable(one: datetime, other: datetime) -> bool:
    return (one.tzinfo is None) == (other.tzinfo is None)
