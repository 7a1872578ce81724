"""`duebox preview`: which schedules will fire and when, or what a rule would do that is stored nowhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox import clock
from duebox.conf import conf
from duebox.entrypoints.plan import no_such_plan
from duebox.entrypoints.terminal import aligned, readable, with_weekday
from duebox.entrypoints.trial import CHOICES, RULES, add_trial_options, moment, try_rule
from duebox.entrypoints.worker import positive
from duebox.exceptions import InvalidEvent
from duebox.plans import plans
from duebox.schedule import project_zone
from duebox.store import schedules
from duebox.upcoming import MOST, Outlook, Upcoming, outlooks, upcoming
from duebox.when import WhenError

FILTERS = ("about", "plan", "key", "type")
A_CENTURY = 36_525


def add_preview_options(parser: CommandParser) -> None:
    parser.add_argument("--from", metavar="MOMENT", help="look from this date or ISO time on; local without an offset")
    parser.add_argument("--days", type=_days, metavar="N", help="look so far ahead (7; a rule as far as --limit takes)")
    parser.add_argument("--limit", type=positive, metavar="N", help="show no more than this (50; of a rule 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, one schedule or occurrence a line")
    stored = parser.add_argument_group("of what is stored")
    stored.add_argument("--occurrences", action="store_true", help="show each occurrence, not a line per schedule")
    stored.add_argument("--internal", action="store_true", help="also what Duebox schedules for its own upkeep")
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
    found = outlooks(**scope, days=days, limit=limit + 1)
    shown = found[:limit]
    if options["json"]:
        _print_json(command, shown, more=len(found) > limit)
    elif shown:
        head = ("next", "zone", "utc", "rule", f"in {_days_in_words(days)}", "event", "about", "key", "last", "marks")
        for line in aligned(head, [_cells_of_schedule(each) for each in shown]):
            command.stdout.write(line)
        _tell_overdue(command, [each.next for each in shown])
        count = sum(each.count for each in shown)
        number = f"The first {limit} schedules" if len(found) > limit else _number(len(shown), "schedule")
        more = "; --limit shows more" if len(found) > limit else ""
        command.stdout.write(f"{number}, {_number(count, 'occurrence')} {_span(options, scope['start'])}{more}.")
    return bool(shown)


def _show_occurrences(command: BaseCommand, options: dict[str, Any], scope: dict[str, Any]) -> bool:
    limit, days = options["limit"] or 50, options["days"]
    is_open = days is None and ("about" in scope or "key" in scope)
    # Of an entity or a schedule, a limit that is asked for says how many repetitions to show.
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


def _print_json(command: BaseCommand, found: Sequence[Upcoming] | Sequence[Outlook], *, more: bool) -> None:
    for one in found:
        command.stdout.write(json.dumps(one.as_dict()))
    if more:
        command.stderr.write(f"Only the first {len(found)}; --limit shows more.")


def _tell_overdue(command: BaseCommand, found: Sequence[Upcoming]) -> None:
    overdue = sum(one.at < clock.now() for one in found)
    if overdue:
        command.stdout.write(f"{overdue} overdue: a worker fires them; start one: manage.py duebox worker")


def _cells(one: Upcoming) -> tuple[str, ...]:
    return _local(one), one.zone, readable(one.at), one.type, ":".join(one.about or ()), one.key, ", ".join(one.marks)


def _cells_of_schedule(each: Outlook) -> tuple[str, ...]:
    one, count = each.next, f"{each.count}+" if each.count == MOST else str(each.count)
    about, marks = ":".join(one.about or ()), ", ".join(one.marks)
    return (
        _local(one), one.zone, readable(one.at), each.rule, count, one.type, about, one.key, each.last_state, marks,
    )  # fmt: skip


def _local(one: Upcoming) -> str:
    return with_weekday(datetime.fromisoformat(one.local))


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _span(options: dict[str, Any], start: datetime | None) -> str:
    return f"within {_days_in_words(options['days'])} from {_minute(start)} UTC"


def _days_in_words(days: int | None) -> str:
    return _number(7 if days is None else days, "day")


def _minute(start: datetime | None) -> str:
    return readable((start or clock.now()).replace(second=0, microsecond=0))


def _way_on(asked: dict[str, Any], scope: dict[str, Any]) -> str:
    """What to do in front of an empty page."""
    start, using = scope["start"], scope["using"]
    for one in upcoming(**scope, days=A_CENTURY, limit=1):
        days = (one.at - (start or clock.now())).days + 1
        return f"The next is {one.type} on {_local(one)} {one.zone}; look further: --days {days}"
    if start is not None:
        return "Nor is there anything later; leave out --from to see what comes before."
    for resting in schedules.rows(using).with_state().filter(key=asked.get("key", "")):
        return f"Schedule {resting.key!r} is {getattr(resting, 'state', resting.status)}."
    if asked:
        return f"No schedule matches; leave out {' and '.join(f'--{name}' for name in asked)} to see all."
    return (
        "No schedule is live. Call duebox.schedule(), or declare a duebox.Plan in plans.py of an app; "
        "for rows that are there already, run: manage.py duebox plan"
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
        raise CommandError(f"--{wrong} is about what is stored, --{tried} tries a rule; leave one of them out.")
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
        raise CommandError("That is beyond the calendar; take an earlier --from, or fewer --days.") from error
