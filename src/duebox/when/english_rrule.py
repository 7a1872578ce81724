"""A recurrence rule in plain English."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from itertools import product

from duebox.when.policy import Leap
from duebox.when.rules.rrule import Recurrence
from duebox.when.rules.rrule_skip import can_miss
from duebox.when.rules.rrule_text import ELAPSED_FREQUENCIES, Parts
from duebox.when.rules.weekdays import CODES, NAMES
from duebox.when.times import short
from duebox.when.words import MONTHS, clock_times, every_unit, joined, month_day, ordinal

_UNITS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
}


def describe_recurrence(rule: Recurrence) -> str:
    """What the rule says, part by part; parts that follow from its start are spelled out."""
    parts = rule.parts
    text = every_unit(parts.interval, _UNITS[parts.freq]) + _days(rule) + _positions(parts) + _times(rule)
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


def _part(parts: Parts, name: str, word: str, say: Callable[[str], str]) -> str:
    values = parts.by.get(name, ())
    return f" {word} {joined([say(value) for value in values])}" if values else ""


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
    hours_, minutes, seconds = (
        parts.numbers(name) or (given,)
        for name, given in (
            ("BYHOUR", rule.start.hour),
            ("BYMINUTE", rule.start.minute),
            ("BYSECOND", rule.start.second),
        )
    )
    return f" at {clock_times(sorted({time(*one) for one in product(hours_, minutes, seconds)}))}"


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
