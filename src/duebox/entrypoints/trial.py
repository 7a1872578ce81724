"""The rule that `duebox preview` tries: read from the command line, stored nowhere."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock, when
from duebox.entrypoints.terminal import aligned, readable, with_weekday
from duebox.schedule import project_zone
from duebox.when.times import read, short

RULES = ("cron", "rrule", "daily")
CHOICES = ("zone", "start", "gap", "fold")


def add_trial_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("a rule to try; nothing is stored")
    rule = group.add_mutually_exclusive_group()
    rule.add_argument("--cron", metavar="EXPRESSION", help="five fields, as in '0 9 * * 1-5'")
    rule.add_argument("--rrule", metavar="TEXT", help="RFC 5545, as in 'FREQ=MONTHLY;BYDAY=-1FR'; needs --start")
    rule.add_argument("--daily", metavar="HH:MM", help="each day at this local time, or at several: 09:00,17:30")
    group.add_argument("--zone", metavar="NAME", help="whose clocks, as in Europe/London (TIME_ZONE)")
    group.add_argument(
        "--start", metavar="MOMENT", help="nothing before this date or ISO time; local without an offset"
    )
    group.add_argument("--gap", metavar="POLICY", help="for times that clocks jump over (shift_forward)")
    group.add_argument("--fold", metavar="POLICY", help="for times that clocks show twice (first)")


def try_rule(command: BaseCommand, options: dict[str, Any]) -> None:
    """The rule in plain English, and when it would fire."""
    table = _timetable(options)
    first = moment(options["from"], table.zone) if options["from"] else clock.now()
    if options["days"]:
        found = when.between(table, first, first + timedelta(days=options["days"]))
    else:
        found = when.upcoming(table, first - timedelta.resolution)
    shown = list(islice(found, options["limit"] or 10))
    if options["json"]:
        for one in shown:
            command.stdout.write(json.dumps(_as_dict(one, table.zone)))
        return
    command.stdout.write(when.describe(table))
    if not shown:
        command.stdout.write(f"Never from {readable(first)} UTC on; move --from or --start, or look more --days ahead.")
        return
    rows = [(with_weekday(one.nominal), readable(one.instant), ", ".join(one.marks)) for one in shown]
    for line in aligned(("local", "utc", "marks"), rows):
        command.stdout.write(line)


def moment(text: str, zone: str, option: str = "--from") -> datetime:
    """An instant from what was typed: a date begins with its first instant in the zone."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        typed = read(text, option)
        return typed if typed.tzinfo else when.resolve(typed, zone)[0].instant
    return when.start_of_day(day, zone)


def _timetable(options: dict[str, Any]) -> when.Timetable:
    start = read(options["start"], "--start") if options["start"] else None
    rule: when.Rule
    if options["rrule"]:
        if start is None and "DTSTART" not in options["rrule"].upper():
            raise CommandError("--rrule counts from its first local time; add one, such as --start 2026-01-05T09:00")
        rule, start = when.rrule(options["rrule"], start=start), None
    elif options["cron"]:
        rule = when.cron(options["cron"])
    else:
        rule = when.daily(tuple(options["daily"].split(",")))
    policies = {name: options[name] for name in ("gap", "fold") if options[name]}
    return when.Timetable(rule=rule, zone=options["zone"] or project_zone(), start=start, **policies)


def _as_dict(one: when.Occurrence, zone: str) -> dict[str, Any]:
    """The fields of `Upcoming.as_dict` that a rule alone can have."""
    local = short(one.nominal)
    return {"at": one.instant.isoformat(), "occurrence": one.key, "local": local, "zone": zone, "marks": one.marks}
