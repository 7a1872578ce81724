"""`duebox schedules`: list, pause, resume, cancel and restore schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.db.models import Q

from duebox.cli.audit import instant
from duebox.cli.output import DRY_RUN, Group, Options, Verb, aligned, readable, with_weekday
from duebox.cli.preview import entities
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.contracts.enforce import OWN
from duebox.events.identities import printable
from duebox.exceptions import did_you_mean
from duebox.models import Schedule
from duebox.models.schedule import STATES, ScheduleQuerySet
from duebox.schedules.intent import read_intent
from duebox.schedules.plans import restore as restore_schedules
from duebox.schedules.schedule import cancel as cancel_schedules
from duebox.schedules.schedule import pause as pause_schedules
from duebox.schedules.schedule import resume as resume_schedules
from duebox.store import schedules
from duebox.store.run_sql import migrated
from duebox.when.describe import describe_rule
from duebox.when.times import read

LIVE = ["scheduled", "paused"]
FILTERS = ("type", "plan", "organization")
_MAY_BE = {
    "paused": Q(status="scheduled"),
    "resumed": Q(status="paused"),
    "cancelled": Q(status__in=LIVE),
    "restored": ~Q(opt_out=""),
}
"""The schedules that a command may change, by its verb."""
Act = Callable[..., int]


def show_all(command: BaseCommand, options: Options) -> None:
    """List schedules: their rules, and when each fires next."""
    limit = options["limit"]
    found = schedules.listed(_asked(options).defer("data").order_by("due_at", "id")[: limit + 1])
    if options["json"]:
        for row in found[:limit]:
            command.stdout.write(json.dumps(_as_dict(row)))
        return
    head = ("next, local", "zone", "next, utc", "event", "about", "rule", "key", "plan", "state", "last")
    for line in aligned(head, [_cells(row) for row in found[:limit]]) if found else ["No schedules."]:
        command.stdout.write(line)
    if len(found) > limit:
        command.stdout.write(f"Only the first {limit}; --limit shows more.")


def pause(command: BaseCommand, options: Options) -> None:
    """Pause a schedule, or all schedules of an entity, until they are resumed."""
    _change(command, options, pause_schedules, "paused")


def resume(command: BaseCommand, options: Options) -> None:
    """Resume a schedule, or all schedules of an entity. Occurrences from the pause do not fire any more."""
    _change(command, options, resume_schedules, "resumed")


def cancel(command: BaseCommand, options: Options) -> None:
    """Cancel a schedule, or all schedules of an entity. They stay cancelled until they are restored."""
    _change(command, options, cancel_schedules, "cancelled")


def restore(command: BaseCommand, options: Options) -> None:
    """Restore a cancelled schedule, or all of an entity. Past occurrences do not fire."""
    _change(command, options, restore_schedules, "restored")


def _change(command: BaseCommand, options: Options, act: Act, word: str) -> None:
    using, about = options["database"] or conf().DATABASE, options["about"]
    keys = [each for each in (options["key"], options["named_key"]) if each is not None]
    filters = {name: options[name] for name in FILTERS if options[name]}
    if len(keys) > 1 or bool(keys) == bool(about or filters):
        raise CommandError(
            "No schedule is selected: pass the key of a schedule; or --about TYPE:ID or TYPE, --type, --plan or "
            "--organization, not both."
        )
    key = keys[0] if keys else None
    rows = schedules.rows(using).filter(**filters)
    if about:
        rows = rows.about(*about)
    if key is not None:
        rows = rows.filter(key=key)
    with migrated(using):
        if key is not None and not rows.exists():
            raise CommandError(f"No schedule has the key {key!r}; {_near(using, key)}")
        if filters:
            done = _each_acted(act, rows.filter(_MAY_BE[word]), using, dry_run=options["dry_run"])
        else:
            done = _acted(act, key, about, using, dry_run=options["dry_run"])
    if options["json"]:
        command.stdout.write(json.dumps({word: done, "dry_run": options["dry_run"]}))
        return
    command.stdout.write(f"{done} {'would be ' if options['dry_run'] else ''}{word}.")
    if not done and key is not None:
        command.stdout.write(f"The schedule {key!r} is {_state(rows.with_state().get())}.")
    if not done and about and not rows.exists():
        command.stdout.write(_near_type(using, *about))
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _acted(act: Act, key: str | None, about: tuple[str, str | None] | None, using: str, *, dry_run: bool) -> int:
    """How many were changed. A dry run does the same and rolls it back, so that the count is the same."""
    with transaction.atomic(using=using):
        done = act(key, about=about, using=using)
        if dry_run:
            transaction.set_rollback(True, using=using)
    return done


def _each_acted(act: Act, rows: ScheduleQuerySet, using: str, *, dry_run: bool) -> int:
    """How many of the matching schedules were changed. They are changed one by one: a filter selects existing schedules
    only, unlike an entity, which also covers later ones."""
    keys = list(rows.order_by("id").values_list("key", flat=True))
    with transaction.atomic(using=using):
        done = sum(act(key, using=using) for key in keys)
        if dry_run:
            transaction.set_rollback(True, using=using)
    return done


def _asked(options: Options) -> ScheduleQuerySet:
    rows = schedules.rows(options["database"] or conf().DATABASE)
    rows = rows.in_state(*options["state"] or LIVE)
    if options["about"]:
        rows = rows.about(*options["about"])
    given = {name: options[name] for name in ("key", *FILTERS, "zone") if options[name]}
    if not (given or options["all"]):
        rows = rows.exclude(type__startswith=OWN)
    for name, bound in (("since", "due_at__gte"), ("until", "due_at__lt")):
        if moment := instant(options, name):
            rows = rows.filter(**{bound: moment})
    return rows.filter(**given)


def _cells(row: Schedule) -> tuple[str, ...]:
    local = with_weekday(read(row.local_time, "local_time")) if row.local_time else ""
    utc = readable(row.due_at) if row.due_at else ""
    about = f"{row.aggregate_type}:{row.aggregate_id}" if row.aggregate_type else ""
    texts, state = map(printable, (about, repetition(row), row.key, row.plan)), _state(row)
    last = _last_state(row) if state in LIVE else ""  # for an ended schedule, the state says the same
    return local, row.zone, utc, row.type, *texts, "" if state == "scheduled" else state, last


def _as_dict(row: Schedule) -> dict[str, Any]:
    return {
        "key": row.key,
        "state": _state(row),
        "last_state": _last_state(row),
        "type": row.type,
        "about": f"{row.aggregate_type}:{row.aggregate_id}" if row.aggregate_type else None,
        "organization": row.organization,
        "plan": row.plan,
        "rule": repetition(row),
        "next": row.due_at.isoformat() if row.due_at else None,
        "local": row.local_time,
        "zone": row.zone,
        "remaining": row.remaining,
        "last_fired_at": row.fired_at.isoformat() if row.fired_at else None,
    }


def _state(row: Schedule) -> str:
    return str(getattr(row, "state", row.status))


def _last_state(row: Schedule) -> str:
    """The state of the occurrence that fired last."""
    return str(getattr(row, "last_state", ""))


def repetition(row: Schedule) -> str:
    """The rule in English; empty for one that fires once, whose time is shown beside it."""
    table = read_intent(row.intent).table
    return "" if table.rule.single else describe_rule(table.rule)


def _near(using: str, key: str) -> str:
    keys = schedules.rows(using).filter(status__in=LIVE).exclude(type__startswith=OWN).order_by("due_at", "id")
    near = did_you_mean(key, keys.values_list("key", flat=True)[:1000])
    return near or "`duebox schedules list` lists those that are live."


def _near_type(using: str, kind: str, id: str | None) -> str:
    known = schedules.rows(using).exclude(aggregate_type__in=["", kind]).order_by("aggregate_type")
    near = did_you_mean(kind, known.values_list("aggregate_type", flat=True).distinct())
    hint = near or "`duebox schedules list` lists those that are live."
    return f"No schedule is about {kind if id is None else f'{kind}:{id}'!r}; {hint}"


def _add_list_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=STATES, metavar="STATE",
        help=f"in this state (scheduled and paused); repeatable: {', '.join(STATES)}",
    )  # fmt: skip
    _add_filters(parser)
    parser.add_argument(
        "--about", type=entities, metavar="TYPE:ID", help="of this entity, as in appointment:42, or of a TYPE of them"
    )
    parser.add_argument("--key", help="the one with this key")
    parser.add_argument("--zone", metavar="NAME", help="of this time zone")
    parser.add_argument("--since", metavar="MOMENT", help="due from this date or ISO time on; local without an offset")
    parser.add_argument("--until", metavar="MOMENT", help="due before this one")
    parser.add_argument("--all", action="store_true", help="also schedules of Duebox itself, such as sweeps")
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list (50)")
    _add_common(parser, "print JSON, one schedule a line")


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--type", metavar="EVENT", help="of this event type")
    parser.add_argument("--plan", metavar="NAME", help="of this plan")
    parser.add_argument("--organization", metavar="ID", help="of this organization")


def _add_change_options(parser: CommandParser) -> None:
    parser.add_argument("key", nargs="?", help="the key of a schedule")
    parser.add_argument("--key", dest="named_key", metavar="KEY", help="the same as an option")
    parser.add_argument(
        "--about",
        type=entities,
        metavar="TYPE:ID",
        help="all of this entity, as in appointment:42, or of a TYPE of them",
    )
    _add_filters(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print how many")
    _add_common(parser, "print JSON")


def _add_common(parser: CommandParser, json: str) -> None:
    parser.add_argument("--json", action="store_true", help=json)
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


SCHEDULES = Group(
    "Schedules",
    "List schedules, and pause, resume, cancel or restore them.",
    {
        "list": Verb(show_all, _add_list_options),
        "pause": Verb(pause, _add_change_options),
        "resume": Verb(resume, _add_change_options),
        "cancel": Verb(cancel, _add_change_options),
        "restore": Verb(restore, _add_change_options),
    },
)
