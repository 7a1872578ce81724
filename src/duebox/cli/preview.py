"""`duebox preview`: when stored schedules, or a rule given on the command line, will fire."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock, when
from duebox.cli.output import aligned, readable, with_weekday
from duebox.cli.plan import no_such_plan
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.events.identities import printable
from duebox.exceptions import InvalidEvent
from duebox.schedules.plans import plans
from duebox.schedules.schedule import project_zone
from duebox.schedules.upcoming import Upcoming, UpcomingSchedule, upcoming, upcoming_schedules
from duebox.store import schedules
from duebox.when import WhenError
from duebox.when.times import read, short

RULES = ("cron", "rrule", "daily")
CHOICES = ("zone", "start", "gap", "fold")


def add_trial_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("a rule to try; nothing is stored")
    rule = group.add_mutually_exclusive_group()
    rule.add_argument("--cron", metavar="EXPRESSION", help="five fields, as in '0 9 * * 1-5'")
    rule.add_argument("--rrule", metavar="TEXT", help="RFC 5545, as in 'FREQ=MONTHLY;BYDAY=-1FR'; needs --start")
    rule.add_argument("--daily", metavar="HH:MM", help="each day at this local time, or at several: 09:00,17:30")
    group.add_argument("--zone", metavar="NAME", help="the time zone, as in Europe/London (TIME_ZONE)")
    group.add_argument(
        "--start", metavar="MOMENT", help="nothing before this date or ISO time; local without an offset"
    )
    group.add_argument("--gap", metavar="POLICY", help="for times that clocks jump over (shift_forward)")
    group.add_argument("--fold", metavar="POLICY", help="for times that clocks show twice (first)")


def try_rule(command: BaseCommand, options: dict[str, Any]) -> None:
    """The rule in plain English, and when it would fire."""
    table = timetable(options)
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
    """The instant of a text: a date is its first instant in the zone."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        typed = read(text, option)
        return typed if typed.tzinfo else when.resolve(typed, zone)[0].instant
    return when.start_of_day(day, zone)


def timetable(options: dict[str, Any]) -> when.Timetable:
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


FILTERS = ("about", "plan", "key", "type")
A_CENTURY = 36_525


def add_preview_options(parser: CommandParser) -> None:
    parser.add_argument("--from", metavar="MOMENT", help="look from this date or ISO time on; local without an offset")
    parser.add_argument(
        "--days", type=_days, metavar="N", help="how many days ahead (7; for a rule until --limit is reached)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="show no more than this (50; for a rule 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, one schedule or occurrence a line")
    stored = parser.add_argument_group("stored schedules")
    stored.add_argument("--occurrences", action="store_true", help="show each occurrence, not a line per schedule")
    stored.add_argument("--internal", action="store_true", help="also schedules of Duebox itself, for maintenance")
    stored.add_argument(
        "--about", type=entities, metavar="TYPE:ID", help="of this entity, as in appointment:42, or of a TYPE of them"
    )
    stored.add_argument("--plan", metavar="NAME", help="of this plan")
    stored.add_argument("--key", help="of the schedule with this key")
    stored.add_argument("--type", metavar="EVENT", help="of this event type")
    stored.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")
    add_trial_options(parser)


def preview(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show what will fire, in local time and UTC; or try a rule without storing it."""
    tried = next((name for name in RULES if options[name]), None)
    _refuse_mixture(tried, options)
    with _refusals():
        if tried:
            try_rule(command, options)
        else:
            _show(command, options)


def _show(command: BaseCommand, options: dict[str, Any]) -> None:
    using = options["database"] or conf().DATABASE
    start = moment(options["from"], project_zone()) if options["from"] else None
    asked = {name: options[name] for name in FILTERS if options[name]}
    _refuse_unknown_plan(options["plan"], using)
    scope = {**asked, "start": start, "include_internal": options["internal"], "using": using}
    show = _show_occurrences if options["occurrences"] else _show_schedules
    if not show(command, options, scope) and not options["json"]:
        command.stdout.write(f"Nothing fires {_span(options, start)}.")
        command.stdout.write(_way_on(asked, scope))


def _show_schedules(command: BaseCommand, options: dict[str, Any], scope: dict[str, Any]) -> bool:
    """One line for each schedule."""
    limit, days = options["limit"] or 50, options["days"]
    found = upcoming_schedules(**scope, days=days, limit=limit + 1)
    shown = found[:limit]
    if options["json"]:
        _print_json(command, shown, more=len(found) > limit)
    elif shown:
        head = ("next", "zone", "utc", "rule", f"in {_days_in_words(days)}", "event", "about", "key", "last", "marks")
        for line in aligned(head, [_cells_of_schedule(each) for each in shown]):
            command.stdout.write(line)
        _tell_overdue(command, [each.next for each in shown])
        count = _counted(sum(each.count for each in shown), "occurrence", more=any(each.more for each in shown))
        number = f"The first {limit} schedules" if len(found) > limit else _number(len(shown), "schedule")
        more = "; --limit shows more" if len(found) > limit else ""
        command.stdout.write(f"{number}, {count} {_span(options, scope['start'])}{more}.")
    return bool(shown)


def _show_occurrences(command: BaseCommand, options: dict[str, Any], scope: dict[str, Any]) -> bool:
    limit, days = options["limit"] or 50, options["days"]
    is_open = days is None and ("about" in scope or "key" in scope)
    # For an entity or a schedule, --limit is the number of repetitions to show.
    most = None if is_open and not options["limit"] else limit + 1
    found = upcoming(**scope, days=days, limit=most)
    shown = found[:limit]
    if options["json"]:
        _print_json(command, shown, more=len(found) > limit)
    elif shown:
        head = ("local", "zone", "utc", "event", "about", "key", "marks")
        for line in aligned(head, [_cells(one) for one in shown]):
            command.stdout.write(line)
        _tell_overdue(command, shown)
        span = f"from {_minute(scope['start'])} UTC on" if is_open else _span(options, scope["start"])
        more = len(found) > limit
        command.stdout.write(f"The first {limit} {span}; --limit shows more." if more else f"{len(shown)} {span}.")
    return bool(shown)


def _print_json(command: BaseCommand, found: Sequence[Upcoming] | Sequence[UpcomingSchedule], *, more: bool) -> None:
    for one in found:
        command.stdout.write(json.dumps(one.as_dict()))
    if more:
        command.stderr.write(f"Only the first {len(found)}; --limit shows more.")


def _tell_overdue(command: BaseCommand, found: Sequence[Upcoming]) -> None:
    overdue = sum(one.at < clock.now() for one in found)
    if overdue:
        command.stdout.write(f"{overdue} overdue: a worker fires them; start one: manage.py duebox worker")


def _cells(one: Upcoming) -> tuple[str, ...]:
    return _local(one), one.zone, readable(one.at), one.type, *_names(one), ", ".join(one.marks)


def _cells_of_schedule(each: UpcomingSchedule) -> tuple[str, ...]:
    one, count = each.next, f"{each.count}+" if each.more else str(each.count)
    return (
        _local(one), one.zone, readable(one.at), each.rule, count, one.type, *_names(one), each.last_state,
        ", ".join(one.marks),
    )  # fmt: skip


def _names(one: Upcoming) -> tuple[str, str]:
    return printable(":".join(one.about or ())), printable(one.key)


def _local(one: Upcoming) -> str:
    return with_weekday(datetime.fromisoformat(one.local))


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _counted(count: int, what: str, *, more: bool) -> str:
    """With a plus sign if not all of them were counted."""
    return f"{count}+ {what}s" if more else _number(count, what)


def _span(options: dict[str, Any], start: datetime | None) -> str:
    return f"within {_days_in_words(options['days'])} from {_minute(start)} UTC"


def _days_in_words(days: int | None) -> str:
    return _number(7 if days is None else days, "day")


def _minute(start: datetime | None) -> str:
    return readable((start or clock.now()).replace(second=0, microsecond=0))


def _way_on(asked: dict[str, Any], scope: dict[str, Any]) -> str:
    """A hint for an empty result."""
    start, using = scope["start"], scope["using"]
    for one in upcoming(**scope, days=A_CENTURY, limit=1):
        days = (one.at - (start or clock.now())).days + 1
        return f"The next is {one.type} on {_local(one)} {one.zone}; look further: --days {days}"
    if start is not None:
        return "There is nothing later either; leave out --from to see earlier ones."
    for resting in schedules.rows(using).with_state().filter(key=asked.get("key", "")):
        return f"Schedule {resting.key!r} is {getattr(resting, 'state', resting.status)}."
    if asked:
        return f"No schedule matches; leave out {' and '.join(f'--{name}' for name in asked)} to see all."
    return (
        "No schedule is live. Call duebox.schedule(), or declare a duebox.Plan in plans.py of an app; "
        "for existing rows, run: manage.py duebox plan"
    )


def entity(text: str) -> tuple[str, str]:
    kind, _, identity = text.partition(":")
    if not (kind and identity):
        raise argparse.ArgumentTypeError(f"{text!r} is not TYPE:ID, as in appointment:42")
    return kind, identity


def entities(text: str) -> tuple[str, str | None]:
    """An entity, or a type of them alone."""
    return entity(text) if ":" in text or text.isdecimal() else (text, None)


def _days(text: str) -> int:
    days = positive(text)
    if days > A_CENTURY:
        raise argparse.ArgumentTypeError(f"{text} days are more than a century; use {A_CENTURY} or fewer")
    return days


def _refuse_mixture(tried: str | None, options: dict[str, Any]) -> None:
    strange = (*FILTERS, "occurrences", "internal", "database") if tried else CHOICES
    wrong = next((name for name in strange if options[name]), None)
    if wrong and tried:
        raise CommandError(f"--{wrong} is for stored schedules, --{tried} tries a rule; leave one of them out.")
    if wrong:
        raise CommandError(f"--{wrong} belongs to a rule; add one: {', '.join(f'--{name}' for name in RULES)}.")


def _refuse_unknown_plan(name: str | None, using: str) -> None:
    # One that is no longer declared may still have schedules.
    if name and name not in {plan.name for plan in plans()} and not schedules.rows(using).filter(plan=name).exists():
        raise no_such_plan(name)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (WhenError, InvalidEvent) as error:
        raise CommandError(str(error)) from error
    except OverflowError as error:
        raise CommandError("That is beyond the calendar; use an earlier --from, or fewer --days.") from error
