"""`duebox events replay`: send stored events again, or to somebody who was not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.conf import conf
from duebox.entrypoints.audit_entries import instant
from duebox.entrypoints.deliveries import per_second
from duebox.entrypoints.terminal import DRY_RUN, operator, progress
from duebox.entrypoints.verbs import Group, Options, Verb
from duebox.store import replay as store
from duebox.store.replay import Manner, Replayed

Replay = Callable[[Options, Manner], Replayed]


def resend(options: Options, manner: Manner) -> Replayed:
    """Send one event to one subscriber again, whatever became of it before."""
    store.resend(options["event"], to=options["to"], manner=manner)
    return Replayed(added=1)


def recover(options: Options, manner: Manner) -> Replayed:
    """Send again what failed since then: dead and parked letters, and what an endpoint missed while it was disabled."""
    return store.recover(to=options["to"], since=_moment(options, "since"), manner=manner)


def missing(options: Options, manner: Manner) -> Replayed:
    """Send events that would go there today and never did. For a new handler, destination or endpoint."""
    return store.missing(
        to=options["to"], since=_moment(options, "since"), until=instant(options, "until"), type=options["type"],
        organization=options["organization"], manner=manner,
    )  # fmt: skip


def bulk(options: Options, manner: Manner) -> Replayed:
    """Send every event of a time that would go there today, again."""
    return store.bulk(
        to=options["to"], since=_moment(options, "since"), until=_moment(options, "until"), type=options["type"],
        organization=options["organization"], manner=manner,
    )  # fmt: skip


def _report(command: BaseCommand, options: Options, done: Replayed, replay: Replay) -> None:
    if options["json"]:
        command.stdout.write(json.dumps({**done.as_dict(), "dry_run": options["dry_run"]}))
        return
    would = "would be " if options["dry_run"] else ""
    again = f", {done.retried} {would}retried" if replay is recover else ""
    command.stdout.write(f"{done.added} {would}sent to {options['to']}{again}.")
    if done.still_open:
        command.stdout.write(f"{done.still_open} left alone: a delivery of theirs is still open, due or dead.")
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _moment(options: Options, name: str) -> datetime:
    found = instant(options, name)
    if found is None:
        raise CommandError(f"--{name} is empty; give a date or an ISO time.")
    return found


def _add_event(parser: CommandParser) -> None:
    parser.add_argument("event", metavar="EVENT_ID", help="the id of the event")


def _add_since(parser: CommandParser) -> None:
    text = "from this date or ISO time on; local without an offset"
    parser.add_argument("--since", required=True, metavar="MOMENT", help=text)
    parser.add_argument("--rate", type=per_second, metavar="N", help="so many a second become due (all at once)")


def _add_missing(parser: CommandParser) -> None:
    _add_since(parser)
    _add_until(parser, required=False)


def _add_bulk(parser: CommandParser) -> None:
    _add_since(parser)
    _add_until(parser, required=True)


def _add_until(parser: CommandParser, *, required: bool) -> None:
    parser.add_argument("--until", required=required, metavar="MOMENT", help="before this one")
    parser.add_argument("--type", metavar="PATTERN", help="of this event type, or of a pattern as in 'order.*'")
    parser.add_argument("--organization", metavar="ID", help="of this organization")


def _verb(replay: Replay, add_options: Callable[[CommandParser], None]) -> Verb:
    def run(command: BaseCommand, options: Options) -> None:
        with progress(command, replay.__name__, quiet=options["json"]) as tell:
            manner = Manner(
                by=operator(), rate=options.get("rate"), dry_run=options["dry_run"],
                using=options["database"] or conf().DATABASE, tell=tell,
            )  # fmt: skip
            done = replay(options, manner)
        _report(command, options, done, replay)

    def add(parser: CommandParser) -> None:
        add_options(parser)
        parser.add_argument("--to", required=True, metavar="NAME", help="a handler, a destination, or an endpoint")
        parser.add_argument("--dry-run", action="store_true", help="only say how many")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")

    run.__doc__ = replay.__doc__
    return Verb(run, add)


REPLAY = Group(
    "Replay",
    "Send stored events again: one, what failed, what is missing, or all of a time.",
    {
        "resend": _verb(resend, _add_event),
        "recover": _verb(recover, _add_since),
        "missing": _verb(missing, _add_missing),
        "bulk": _verb(bulk, _add_bulk),
    },
)
