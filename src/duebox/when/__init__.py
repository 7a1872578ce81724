"""When things happen: pure functions of local times, zones and rules, without Django, database and clock.

errors       the errors of this package
policy       choices for cases that have no single right answer
times        naive local times and instants
zones        the zone database, and clock changes
resolver     from local time to instants, by policy
offsets      before and after an anchor
rules        daily, weekly, cron and the others
rrule_parse  the text of RFC 5545
rrule        recurrence rules of RFC 5545
timetable    a rule with its zone, policies and limits
series       next_after, between, upcoming
replan       what fires next after a change, and what fires after a downtime: `catch_up`
describe     a timetable in plain English

There are two kinds of time: naive local (what a wall clock shows) and UTC (an instant).

    >>> from datetime import UTC, datetime
    >>> table = Timetable(rule=daily("09:00"), zone="Europe/London")
    >>> next_after(table, datetime(2026, 3, 28, 12, tzinfo=UTC)).instant
    datetime.datetime(2026, 3, 29, 8, 0, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

from duebox.when.describe import describe
from duebox.when.errors import (
    InvalidRule,
    NonexistentTime,
    RepeatedTime,
    UnknownZone,
    UnresolvedTime,
    WhenError,
    WrongKindOfTime,
)
from duebox.when.offsets import Offset, at_offset, days, hours, minutes, months, offset, weeks
from duebox.when.policy import CatchUpMode, Closed, Fold, Gap, Late, Leap
from duebox.when.replan import CatchUp, CaughtUp, Missed, Planned, catch_up, is_spent, replan
from duebox.when.resolver import How, Moved, Occurrence, Resolved, local_time, resolve, start_of_day
from duebox.when.rrule import HourlyRRule, RRule, rrule
from duebox.when.rules import (
    Anniversary,
    Clock,
    Cron,
    Daily,
    Every,
    Moment,
    Monthly,
    Once,
    Reminder,
    Rule,
    Weekly,
    anniversary,
    cron,
    daily,
    every,
    monthly,
    once,
    reminder,
    weekly,
)
from duebox.when.series import between, next_after, spread, upcoming
from duebox.when.timetable import Calendar, Timetable, register_calendar
from duebox.when.zones import ClockChange, ZoneDatabase, clock_changes, disagreements

__all__ = [
    "Anniversary", "Calendar", "CatchUp", "CatchUpMode", "CaughtUp", "Clock", "ClockChange", "Closed", "Cron",
    "Daily", "Every", "Fold", "Gap", "HourlyRRule", "How", "InvalidRule", "Late", "Leap", "Missed", "Moment",
    "Monthly", "Moved", "NonexistentTime", "Occurrence", "Offset", "Once", "Planned", "RRule", "Reminder",
    "RepeatedTime", "Resolved", "Rule", "Timetable", "UnknownZone", "UnresolvedTime", "Weekly", "WhenError",
    "WrongKindOfTime", "ZoneDatabase", "anniversary", "at_offset", "between", "catch_up", "clock_changes", "cron",
    "daily", "days", "describe", "disagreements", "every", "hours", "is_spent", "local_time", "minutes", "monthly",
    "months", "next_after", "offset", "once", "register_calendar", "reminder", "replan", "resolve", "rrule", "spread",
    "start_of_day", "upcoming", "weekly", "weeks",
]  # fmt: skip
