"""`duebox dead` and `duebox redrive`: look at what gave up, and give it another chance."""

from __future__ import annotations

import getpass
import json
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.conf import conf
from duebox.entrypoints.worker import positive
from duebox.store import dead as store


def add_dead_options(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="?", type=int, help="show this dead letter with its whole history")
    parser.add_argument("--limit", type=positive, default=50, help="how many to list (50)")
    parser.add_argument("--json", action="store_true", help="print JSON, one dead letter a line")
    _add_filters(parser)


def add_redrive_options(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="*", type=int, help="dead letters by id")
    parser.add_argument("--all", action="store_true", help="every dead letter there is")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_filters(parser)


def dead(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the dead letters, or show one."""
    using = options["database"] or conf().DATABASE
    if options["id"]:
        _show(command, options, using)
        return
    letters = store.find(using, limit=options["limit"], **_filters(options))
    if options["json"]:
        for letter in letters:
            command.stdout.write(json.dumps(letter.as_dict()))
        return
    for letter in letters:
        command.stdout.write(
            f"{letter.id:>8}  {letter.died_at:%Y-%m-%d %H:%M:%S}  {letter.event_type}  ->  {letter.subscriber}"
        )
        command.stdout.write(f"          {letter.error_line}")
    total = store.count(using, **_filters(options))
    command.stdout.write(f"{total} dead letter{'s' if total != 1 else ''}." if total else "No dead letters.")


def redrive(command: BaseCommand, options: dict[str, Any]) -> None:
    """Make dead letters due again. Needs ids, a filter, or --all."""
    using = options["database"] or conf().DATABASE
    filters = _filters(options)
    if not (options["id"] or filters or options["all"]):
        raise CommandError("Say which ones: ids, --type, --subscriber, or --all. `duebox dead` lists them.")
    ids = [letter.id for letter in store.find(using, ids=options["id"], **filters)]
    missing = sorted(set(options["id"]) - set(ids))
    if missing:
        raise CommandError(f"No dead letter has the id {', '.join(map(str, missing))}; `duebox dead` lists them.")
    if not options["dry_run"]:
        ids = store.redrive(using, ids, note=f"redriven by {operator()}")
    if options["json"]:
        command.stdout.write(json.dumps({"redriven": ids, "dry_run": options["dry_run"]}))
    else:
        command.stdout.write(f"{len(ids)} {'would be ' if options['dry_run'] else ''}due again.")


def operator() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--type", help="of this event type")
    parser.add_argument("--subscriber", help="of this subscriber")
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def _filters(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("type", "subscriber") if options[name]}


def _show(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    letters = store.find(using, ids=[options["id"]])
    if not letters:
        raise CommandError(f"No dead letter has the id {options['id']}; `duebox dead` lists them.")
    letter = letters[0]
    if options["json"]:
        command.stdout.write(json.dumps({**letter.as_dict(), "history": letter.history(using)}))
        return
    command.stdout.write(f"{letter.event_type} ({letter.event_id}) to {letter.subscriber}")
    command.stdout.write(f"data: {json.dumps(letter.data)}")
    for line in letter.history(using):
        command.stdout.write(f"{line['settled_at']}  attempt {line['number']}: {line['outcome']}")
        command.stdout.write("\n".join(f"    {text}" for text in line["note"].splitlines()))
    command.stdout.write(f"Another chance: manage.py duebox redrive {letter.id}")
