"""`duebox preview`: what will fire of what is stored, or what a rule would do that is stored nowhere."""

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
from duebox.upcoming import Upcoming, upcoming
from duebox.when import WhenError

FILTERS = ("about", "plan", "key", "type")
A_CENTURY = 36_525


def add_preview_options(parser: CommandParser) -> None:
    parser.add_argument("--from", metavar="MOMENT", help="look from this date or ISO time on; local without an offset")
    parser.add_argument("--days", type=_days, metavar="N", help="look so far ahead (7; a rule as far as --limit takes)")
    parser.add_argument("--limit", type=positive, metavar="N", help="show no more than this (50; of a rule 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, one occurrence a line")
    stored = parser.add_argument_group("of what is stored")
    stored.add_argument("--about", type=entity, metavar="TYPE:ID", help="of this entity, as in appointment:42")
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
    limit, days = options["limit"] or 50, options["days"] or 7
    start = moment(options["from"], project_zone()) if options["from"] else None
    asked = {name: options[name] for name in FILTERS if options[name]}
    _refuse_unknown_plan(options["plan"], using)
    found = upcoming(**asked, days=days, start=start, limit=limit + 1, using=using)
    more = "; --limit shows more" if len(found) > limit else ""
    if options["json"]:
        for one in found[:limit]:
            command.stdout.write(json.dumps(one.as_dict()))
        if more:
            command.stderr.write(f"Only the first {limit}{more}.")
        return
    span = f"within {days} day{'s' if days != 1 else ''} from {readable(start or clock.now())} UTC"
    if found:
        _print(command, found[:limit])
        command.stdout.write(f"The first {limit} {span}{more}." if more else f"{len(found)} {span}.")
    else:
        command.stdout.write(f"Nothing fires {span}.")
        command.stdout.write(_way_on(asked, start, using))


def _print(command: BaseCommand, found: Sequence[Upcoming]) -> None:
    head = ("local", "zone", "utc", "event", "about", "key", "marks")
    for line in aligned(head, [_cells(one) for one in found]):
        command.stdout.write(line)
    overdue = sum(one.at < clock.now() for one in found)
    if overdue:
        command.stdout.write(f"{overdue} overdue: a worker fires them; start one: manage.py duebox worker")


def _cells(one: Upcoming) -> tuple[str, ...]:
    local, about = with_weekday(datetime.fromisoformat(one.local)), ":".join(one.about or ())
    return local, one.zone, readable(one.at), one.type, about, one.key, ", ".join(one.marks)


def _way_on(asked: dict[str, Any], start: datetime | None, using: str) -> str:
    """What to do in front of an empty page."""
    for one in upcoming(**asked, start=start, days=A_CENTURY, limit=1, using=using):
        local, days = with_weekday(datetime.fromisoformat(one.local)), (one.at - (start or clock.now())).days + 1
        return f"The next is {one.type} on {local} {one.zone}; look further: --days {days}"
    if start is not None:
        return "Nor is there anything later; leave out --from to see what comes before."
    if resting := schedules.rows(using).filter(key=asked.get("key", "")).first():
        return f"Schedule {resting.key!r} is {resting.status}."
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


def _days(text: str) -> int:
    days = positive(text)
    if days > A_CENTURY:
        raise argparse.ArgumentTypeError(f"{text} days are more than a century; use {A_CENTURY} or fewer")
    return days


def _refuse_mixture(tried: str | None, options: dict[str, Any]) -> None:
    strange = (*FILTERS, "database") if tried else CHOICES
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
