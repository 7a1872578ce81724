"""`duebox schedules`: what is to happen later, and pausing, resuming and cancelling it."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.preview import entity
from duebox.entrypoints.terminal import DRY_RUN, aligned, readable, with_weekday
from duebox.entrypoints.verbs import Group, Options, Verb
from duebox.entrypoints.worker import positive
from duebox.intent import read_intent
from duebox.models import Schedule
from duebox.models.schedule import ScheduleQuerySet
from duebox.promise import OWN
from duebox.schedule import cancel as cancel_schedules
from duebox.schedule import pause as pause_schedules
from duebox.schedule import resume as resume_schedules
from duebox.store import schedules
from duebox.when.english import describe_rule
from duebox.when.times import read

LIVE = ["scheduled", "paused"]
STATES = [str(state) for state in Schedule.Status.values]
Act = Callable[..., int]


def show_all(command: BaseCommand, options: Options) -> None:
    """List schedules: their rules, and when each fires next."""
    limit = options["limit"]
    found = list(_asked(options).order_by("due_at", "id")[: limit + 1])
    if options["json"]:
        for row in found[:limit]:
            command.stdout.write(json.dumps(_as_dict(row)))
        return
    head = ("next, local", "zone", "next, utc", "event", "about", "rule", "key", "plan", "state")
    for line in aligned(head, [_cells(row) for row in found[:limit]]) if found else ["No schedules."]:
        command.stdout.write(line)
    if len(found) > limit:
        command.stdout.write(f"Only the first {limit}; --limit shows more.")


def pause(command: BaseCommand, options: Options) -> None:
    """Let a schedule, or all of an entity, rest until it is resumed."""
    _change(command, options, pause_schedules, ["scheduled"], "paused")


def resume(command: BaseCommand, options: Options) -> None:
    """Go on with a schedule, or all of an entity. What would have fired meanwhile does not fire any more."""
    _change(command, options, resume_schedules, ["paused"], "resumed")


def cancel(command: BaseCommand, options: Options) -> None:
    """Cancel a schedule, or all of an entity."""
    _change(command, options, cancel_schedules, LIVE, "cancelled")


def _change(command: BaseCommand, options: Options, act: Act, states: list[str], word: str) -> None:
    using, key, about = options["database"] or conf().DATABASE, options["key"], options["about"]
    if (key is None) == (about is None):
        raise CommandError("Say which: the key of a schedule, or --about TYPE:ID, and not both.")
    rows = schedules.rows(using)
    rows = rows.filter(key=key) if key is not None else rows.about(*about)
    if key is not None and not rows.exists():
        raise CommandError(f"No schedule has the key {key!r}; {_near(using, key)}")
    done = rows.filter(status__in=states).count() if options["dry_run"] else act(key, about=about, using=using)
    if options["json"]:
        command.stdout.write(json.dumps({word: done, "dry_run": options["dry_run"]}))
        return
    command.stdout.write(f"{done} {'would be ' if options['dry_run'] else ''}{word}.")
    if not done and key is not None:
        command.stdout.write(f"The schedule {key!r} is {rows.get().status}.")
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _asked(options: Options) -> ScheduleQuerySet:
    rows = schedules.rows(options["database"] or conf().DATABASE)
    rows = rows.filter(status__in=options["state"] or LIVE)
    if options["about"]:
        rows = rows.about(*options["about"])
    given = {name: options[name] for name in ("key", "plan", "type") if options[name]}
    if not (given or options["all"]):
        rows = rows.exclude(type__startswith=OWN)
    return rows.filter(**given)


def _cells(row: Schedule) -> tuple[str, ...]:
    local = with_weekday(read(row.local_time, "local_time")) if row.local_time else ""
    utc = readable(row.due_at) if row.due_at else ""
    about = f"{row.aggregate_type}:{row.aggregate_id}" if row.aggregate_type else ""
    rule, state = _rule(row), "" if row.status == "scheduled" else row.status
    return local, row.zone, utc, row.type, *map(printable, (about, rule, row.key, row.plan)), state


def _as_dict(row: Schedule) -> dict[str, Any]:
    return {
        "key": row.key,
        "state": row.status,
        "type": row.type,
        "about": f"{row.aggregate_type}:{row.aggregate_id}" if row.aggregate_type else None,
        "organization": row.organization,
        "plan": row.plan,
        "rule": _rule(row),
        "next": row.due_at.isoformat() if row.due_at else None,
        "local": row.local_time,
        "zone": row.zone,
        "remaining": row.remaining,
        "last_fired_at": row.fired_at.isoformat() if row.fired_at else None,
    }


def _rule(row: Schedule) -> str:
    """In English; of one that fires once, nothing: when it does stands beside it."""
    table = read_intent(row.intent).table
    return "" if table.rule.single else describe_rule(table.rule)


def _near(using: str, key: str) -> str:
    keys = schedules.rows(using).filter(status__in=LIVE).exclude(type__startswith=OWN).order_by("due_at", "id")
    near = get_close_matches(key, keys.values_list("key", flat=True)[:1000], n=1)
    return f"did you mean {near[0]!r}?" if near else "`duebox schedules list` lists those that are live."


def _add_list_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=STATES, metavar="STATE",
        help=f"in this state (scheduled and paused); repeatable: {', '.join(STATES)}",
    )  # fmt: skip
    parser.add_argument("--type", metavar="EVENT", help="of this event type")
    parser.add_argument("--about", type=entity, metavar="TYPE:ID", help="of this entity, as in appointment:42")
    parser.add_argument("--key", help="the one with this key")
    parser.add_argument("--plan", metavar="NAME", help="of this plan")
    parser.add_argument("--all", action="store_true", help="also those that Duebox makes for itself, such as sweeps")
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list (50)")
    _add_common(parser, "print JSON, one schedule a line")


def _add_change_options(parser: CommandParser) -> None:
    parser.add_argument("key", nargs="?", help="the key of a schedule")
    parser.add_argument("--about", type=entity, metavar="TYPE:ID", help="all of this entity, as in appointment:42")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    _add_common(parser, "print JSON")


def _add_common(parser: CommandParser, json: str) -> None:
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


SCHEDULES = Group(
    "Schedules",
    "List schedules, and pause, resume or cancel them.",
    {
        "list": Verb(show_all, _add_list_options),
        "pause": Verb(pause, _add_change_options),
        "resume": Verb(resume, _add_change_options),
        "cancel": Verb(cancel, _add_change_options),
    },
)
