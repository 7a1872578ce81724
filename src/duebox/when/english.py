"""A timetable in plain English, for previews and for people who did not write it."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from cronsim import CronSim

from duebox.when.english_rrule import describe_recurrence
from duebox.when.offsets import Offset
from duebox.when.policy import Closed, Fold, Gap, Leap
from duebox.when.rules.anniversary import Anniversary
from duebox.when.rules.base import Rule
from duebox.when.rules.cron import Cron
from duebox.when.rules.daily import Daily
from duebox.when.rules.every import EPOCH, Every
from duebox.when.rules.monthly import Monthly
from duebox.when.rules.once import Moment, Once
from duebox.when.rules.reminder import Reminder
from duebox.when.rules.rrule import Recurrence
from duebox.when.rules.weekdays import NAMES
from duebox.when.rules.weekly import Weekly
from duebox.when.times import short
from duebox.when.timetable import Timetable, keeps_the_wall_clock
from duebox.when.words import clock_times, every_unit, joined, length, month_day, ordinal

_GAPS = {
    Gap.SHIFT_BACKWARD: "times that clocks jump over move back",
    Gap.NEXT_VALID: "times that clocks jump over run when the jump ends",
    Gap.SKIP: "times that clocks jump over are skipped",
    Gap.REJECT: "times that clocks jump over are refused",
}
_FOLDS = {
    Fold.SECOND: "repeated times run the second time",
    Fold.BOTH: "repeated times run both times",
    Fold.REJECT: "repeated times are refused",
}
_CLOSED = {Closed.SKIP: "skipping", Closed.FORWARD: "moved after", Closed.BACKWARD: "moved before"}


def describe(table: Timetable) -> str:
    """One sentence: the rule, the zone, then every choice that is not the default."""
    zone = "" if isinstance(table.rule, Moment | Every) or not table.zone else f", {table.zone} time"
    parts = [describe_rule(table.rule) + zone, *_bounds(table), *_policies(table)]
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def describe_rule(rule: Rule) -> str:
    """The rule alone, without zone and policies."""
    match rule:
        case Once(at=at):
            return f"once, on {_day_and_time(at)}"
        case Moment(at=at):
            return f"once, on {_day_and_time(at)} UTC"
        case Reminder(anchor=anchor, by=by):
            return f"{_distance(by)} {_day_and_time(anchor)}" + (" UTC" if anchor.tzinfo else "")
        case Every(interval=interval, anchor=anchor):
            return f"every {length(interval)}" + ("" if anchor == EPOCH else f" from {_day_and_time(anchor)} UTC")
        case Cron(expression=expression):
            text: str = CronSim(expression, datetime(2000, 1, 1)).explain()
            return text[0].lower() + text[1:]
        case Recurrence():
            return describe_recurrence(rule)
        case _:
            return _describe_simple(rule)


def _describe_simple(rule: Rule) -> str:
    match rule:
        case Daily(at=at, every=every):
            return f"{every_unit(every, 'day')} at {clock_times(at)}"
        case Weekly(days=days, at=at, every=every):
            return f"{every_unit(every, 'week')} on {joined([NAMES[day] for day in days])} at {clock_times(at)}"
        case Monthly(day=day, at=at, every=every, leap=leap):
            month = "month" if every == 1 else f"{ordinal(every)} month"
            return f"on the {ordinal(day)} day of every {month} at {clock_times(at)}{_leap_note(day, leap)}"
        case Anniversary(of=of, at=at, leap=leap):
            note = _leap_note(31, leap) if (of.month, of.day) == (2, 29) else ""
            return f"every year on {month_day(of.month, of.day)} at {_clock(at)}{note}"
        case _:
            return f"by the rule {rule.kind}"


def _leap_note(day: int, leap: Leap) -> str:
    if day <= 28:
        return ""
    where = {
        Leap.OMIT: "left out",
        Leap.BACKWARD: "or the last day of the month",
        Leap.FORWARD: "or the first day after",
    }
    return f", {where[leap]} where that date is missing"


def _bounds(table: Timetable) -> list[str]:
    found = []
    for word, at in (("from", table.start), ("before", table.end)):
        if at is not None:
            found.append(f"{word} {_day_and_time(at)}" + (" UTC" if at.tzinfo else ""))
    if table.remaining is not None:
        found.append(f"{table.remaining} more time{'' if table.remaining == 1 else 's'}")
    return found


def _policies(table: Timetable) -> list[str]:
    found = []
    if table.calendar:
        found.append(f"{_CLOSED[table.closed]} the closed days of {table.calendar}")
    if table.flex > timedelta(0):
        found.append(f"spread over {length(table.flex)}")
    if keeps_the_wall_clock(table.rule) or isinstance(table.rule, Reminder):
        found += filter(None, (_GAPS.get(table.gap), _FOLDS.get(table.fold)))
    return found


def _distance(by: Offset) -> str:
    """1 day and 2 hours before."""
    minutes, seconds = divmod(int(abs(by.exact).total_seconds()), 60)
    units = {"month": abs(by.months), "day": abs(by.days), "hour": minutes // 60, "minute": minutes % 60}
    units["second"] = seconds
    told = [f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in units.items() if count]
    return f"{joined(told)} {'before' if by.is_before else 'after'}" if told else "once, on"


def _clock(at: time) -> str:
    return clock_times((at,))


def _day_and_time(at: datetime) -> str:
    return short(at.replace(tzinfo=None)).replace("T", " at ")
