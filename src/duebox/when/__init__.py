"""When things happen: pure functions of local times, zones and rules. No Django, no rows, no clock of its own.

    zones        which zone database, which release     resolver     local time → instants, by policy
    rules/       what the user asked for                timetable    a rule, its zone, policies and bounds
    occurrences  next_after, between, upcoming          offsets      before and after an anchor
    planning     what fires next after a change         english      the same in plain words
    changes      when clocks change, who disagrees      business     days on which nothing may happen

Two kinds of time and no third: naive local (what a wall clock shows) and UTC (an instant).

    >>> from datetime import UTC, datetime
    >>> table = Timetable(rule=daily("09:00"), zone="Europe/London")
    >>> next_after(table, datetime(2026, 3, 28, 12, tzinfo=UTC)).instant
    datetime.datetime(2026, 3, 29, 8, 0, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

from duebox.when.business import Calendar, register_calendar
from duebox.when.changes import ClockChange, clock_changes, disagreements
from duebox.when.english import describe
from duebox.when.errors import (
    InvalidRule,
    NonexistentTime,
    RepeatedTime,
    UnknownZone,
    UnresolvedTime,
    WhenError,
    WrongKindOfTime,
)
from duebox.when.flex import spread
from duebox.when.occurrence import Moved, Occurrence
from duebox.when.occurrences import between, next_after, upcoming
from duebox.when.offsets import Offset, at_offset, days, hours, minutes, months, offset, weeks
from duebox.when.planning import CatchUp, CaughtUp, Missed, Planned, catch_up, is_spent, replan
from duebox.when.policy import CatchUpMode, Closed, Fold, Gap, Late, Leap
from duebox.when.resolver import How, Resolved, local_time, resolve, start_of_day
from duebox.when.rules.anniversary import Anniversary, anniversary
from duebox.when.rules.base import Rule
from duebox.when.rules.cron import Clock, Cron, cron
from duebox.when.rules.daily import Daily, daily
from duebox.when.rules.every import Every, every
from duebox.when.rules.monthly import Monthly, monthly
from duebox.when.rules.once import Moment, Once, once
from duebox.when.rules.reminder import Reminder, reminder
from duebox.when.rules.rrule import HourlyRRule, RRule, rrule
from duebox.when.rules.weekly import Weekly, weekly
from duebox.when.timetable import Timetable
from duebox.when.zones import ZoneDatabase

__all__ = [
    "Anniversary",
    "Calendar",
    "CatchUp",
    "CatchUpMode",
    "CaughtUp",
    "Clock",
    "ClockChange",
    "Closed",
    "Cron",
    "Daily",
    "Every",
    "Fold",
    "Gap",
    "HourlyRRule",
    "How",
    "InvalidRule",
    "Late",
    "Leap",
    "Missed",
    "Moment",
    "Monthly",
    "Moved",
    "NonexistentTime",
    "Occurrence",
    "Offset",
    "Once",
    "Planned",
    "RRule",
    "Reminder",
    "RepeatedTime",
    "Resolved",
    "Rule",
    "Timetable",
    "UnknownZone",
    "UnresolvedTime",
    "Weekly",
    "WhenError",
    "WrongKindOfTime",
    "ZoneDatabase",
    "anniversary",
    "at_offset",
    "between",
    "catch_up",
    "clock_changes",
    "cron",
    "daily",
    "days",
    "describe",
    "disagreements",
    "every",
    "hours",
    "is_spent",
    "local_time",
    "minutes",
    "monthly",
    "months",
    "next_after",
    "offset",
    "once",
    "register_calendar",
    "reminder",
    "replan",
    "resolve",
    "rrule",
    "spread",
    "start_of_day",
    "upcoming",
    "weekly",
    "weeks",
]
