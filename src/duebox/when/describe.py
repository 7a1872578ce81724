"""Describe a timetable in plain English, for previews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta

from cronsim import CronSim

from duebox.when import rules
from duebox.when.offsets import Offset
from duebox.when.policy import Closed, Fold, Gap, Leap
from duebox.when.rrule import Recurrence, can_miss, times_of_day
from duebox.when.rrule_parse import ELAPSED_FREQUENCIES, Parts
from duebox.when.rules import CODES, EPOCH, NAMES, Rule
from duebox.when.times import short
from duebox.when.timetable import Timetable, follows_wall_clock

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_LENGTHS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def joined(words: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def ordinal(number: int) -> str:
    """1st, 2nd, last, 2nd last."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{ordinal(-number)} last"
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def every_unit(count: int, unit: str) -> str:
    """Every day, every 2 days."""
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def length(span: timedelta) -> str:
    """A duration in its largest whole unit: 6 hours, 90 minutes; the unit alone for one of it."""
    seconds = int(span.total_seconds())
    name, size = next(((name, size) for name, size in _LENGTHS if seconds % size == 0), _LENGTHS[-1])
    count = seconds // size
    return name if count == 1 else f"{count} {name}s"


def clock_times(times: Sequence[time]) -> str:
    """09:00 and 17:30."""
    return joined([one.isoformat(timespec="auto" if one.second else "minutes") for one in times])


def month_day(month: int, day: int) -> str:
    """February 29."""
    return f"{MONTHS[month - 1]} {day}"


_FREQUENCIES = {
    "YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day", "HOURLY": "hour", "MINUTELY": "minute",
}  # fmt: skip


def describe_recurrence(rule: Recurrence) -> str:
    """The rule part by part, with the parts that follow from its start."""
    parts = rule.parts
    text = every_unit(parts.interval, _FREQUENCIES[parts.freq]) + _days(rule) + _positions(parts) + _times(rule)
    text += f", from {short(rule.start).replace('T', ' at ')}" if parts.interval > 1 else ""
    return text + _moves(rule) + _limits(rule)


def _days(rule: Recurrence) -> str:
    parts = rule.parts
    named = [
        _part(parts, "BYMONTH", "in", lambda value: MONTHS[int(value) - 1]),
        _part(parts, "BYWEEKNO", "in week", str),
        _part(parts, "BYYEARDAY", "on day", lambda value: f"{ordinal(int(value))} of the year"),
        _part(parts, "BYMONTHDAY", "on the", lambda value: f"{ordinal(int(value))} day of the month"),
        _part(parts, "BYDAY", "on", _weekday),
    ]
    return "".join(named) if any(named[1:]) else named[0] + _implied_day(rule)


def _part(parts: Parts, name: str, word: str, describe: Callable[[str], str]) -> str:
    values = parts.by.get(name, ())
    return f" {word} {joined([describe(value) for value in values])}" if values else ""


def _implied_day(rule: Recurrence) -> str:
    start, parts = rule.start, rule.parts
    if parts.freq == "WEEKLY":
        return f" on {NAMES[start.weekday()]}"
    if parts.freq == "YEARLY" and "BYMONTH" not in parts.by:
        return f" on {month_day(start.month, start.day)}"
    return f" on the {ordinal(start.day)} day of the month" if parts.freq in ("MONTHLY", "YEARLY") else ""


def _weekday(code: str) -> str:
    name = NAMES[CODES.index(code[-2:])]
    return f"the {ordinal(int(code[:-2]))} {name}" if len(code) > 2 else name


def _positions(parts: Parts) -> str:
    positions = parts.numbers("BYSETPOS")
    return f", only the {joined([ordinal(at) for at in positions])} of these" if positions else ""


def _times(rule: Recurrence) -> str:
    parts = rule.parts
    if parts.freq in ELAPSED_FREQUENCIES:
        hours = _part(parts, "BYHOUR", "within hour", lambda value: f"{int(value):02}")
        return hours + _part(parts, "BYMINUTE", "at minute", lambda value: f"{int(value):02}")
    return f" at {clock_times(times_of_day(parts, rule.start))}"


def _moves(rule: Recurrence) -> str:
    if rule.leap is Leap.OMIT or not can_miss(rule.parts):
        return ""
    return f", moved {'back' if rule.leap is Leap.BACKWARD else 'forward'} where that date is missing"


def _limits(rule: Recurrence) -> str:
    parts, text = rule.parts, ""
    if parts.count is not None:
        text += f", {parts.count} time{'' if parts.count == 1 else 's'} in all"
    if parts.until is not None:
        until = parts.until.replace(tzinfo=None)
        day = until.date().isoformat() if parts.until_is_day else short(until).replace("T", " at ")
        text += f", until {day}" + (" UTC" if parts.until.tzinfo else "")
    if rule.exdates:
        text += f", except {len(rule.exdates)} date{'' if len(rule.exdates) == 1 else 's'}"
    return text


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
    """One sentence: the rule, the zone, then every option that is not the default."""
    zone = "" if isinstance(table.rule, rules.Moment | rules.Every) or not table.zone else f", {table.zone} time"
    parts = [describe_rule(table.rule) + zone, *_bounds(table), *_policies(table)]
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def describe_rule(rule: Rule) -> str:
    """The rule alone, without zone and policies."""
    match rule:
        case rules.Once(at=at):
            return f"once, on {_day_and_time(at)}"
        case rules.Moment(at=at):
            return f"once, on {_day_and_time(at)} UTC"
        case rules.Reminder(anchor=anchor, by=by):
            return f"{_distance(by)} {_day_and_time(anchor)}" + (" UTC" if anchor.tzinfo else "")
        case rules.Every(interval=interval, anchor=anchor):
            return f"every {length(interval)}" + ("" if anchor == EPOCH else f" from {_day_and_time(anchor)} UTC")
        case rules.Cron(expression=expression):
            text: str = CronSim(expression, datetime(2000, 1, 1)).explain()
            return text[0].lower() + text[1:]
        case Recurrence():
            return describe_recurrence(rule)
        case rules.Daily(at=at, every=every):
            return f"{every_unit(every, 'day')} at {clock_times(at)}"
        case rules.Weekly(days=days, at=at, every=every):
            return f"{every_unit(every, 'week')} on {joined([NAMES[day] for day in days])} at {clock_times(at)}"
        case rules.Monthly(day=day, at=at, every=every, leap=leap):
            month = "month" if every == 1 else f"{ordinal(every)} month"
            return f"on the {ordinal(day)} day of every {month} at {clock_times(at)}{_leap_note(day, leap)}"
        case rules.Anniversary(of=of, at=at, leap=leap):
            note = _leap_note(31, leap) if (of.month, of.day) == (2, 29) else ""
            return f"every year on {month_day(of.month, of.day)} at {clock_times((at,))}{note}"
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
    if follows_wall_clock(table.rule) or isinstance(table.rule, rules.Reminder):
        found += filter(None, (_GAPS.get(table.gap), _FOLDS.get(table.fold)))
    return found


def _distance(by: Offset) -> str:
    """1 day and 2 hours before."""
    minutes, seconds = divmod(int(abs(by.exact).total_seconds()), 60)
    units = {"month": abs(by.months), "day": abs(by.days), "hour": minutes // 60, "minute": minutes % 60}
    units["second"] = seconds
    words = [f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in units.items() if count]
    return f"{joined(words)} {'before' if by.is_before else 'after'}" if words else "once, on"


def _day_and_time(at: datetime) -> str:
    return short(at.replace(tzinfo=None)).replace("T", " at ")
