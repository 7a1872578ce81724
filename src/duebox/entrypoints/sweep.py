"""`duebox sweep`: run a sweep now, or all of them."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from duebox.conf import conf
from duebox.entrypoints.worker import positive
from duebox.sweeping import DATABASE_ERRORS
from duebox.sweeps import Sweep, by_name


def add_sweep_options(parser: CommandParser) -> None:
    parser.add_argument("name", nargs="?", help="only this one, as in 'shop.DueTasks'")
    parser.add_argument("--limit", type=positive, help="at most this many rows of each (the sweep's own limit)")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("--json", action="store_true", help="print JSON, one sweep a line")
    parser.add_argument("--database", help="the alias whose tables to sweep (DUEBOX['DATABASE'])")


def sweep(command: BaseCommand, options: dict[str, Any]) -> None:
    """Run sweeps now: one by name, or all that run by the clock. For cron and Lambda."""
    chosen = _chosen(options["name"])
    if not chosen and not options["json"]:
        command.stdout.write("No sweep is declared that runs by the clock; `duebox sweep NAME` runs any other.")
    failures = []
    for position, each in enumerate(chosen):
        if error := _run(command, options, each):
            failures.append(error)
        if isinstance(error, DATABASE_ERRORS) and not _is_there(_alias(options)):
            skipped = ", ".join(other.name for other in chosen[position:])
            raise CommandError(f"The database does not answer; skipped until the next run: {skipped}.") from error
    if failures:
        raise failures[0]


def _chosen(name: str | None) -> list[type[Sweep]]:
    known = by_name()
    if name is None:
        return [each for each in known.values() if each.every is not None]
    if name not in known:
        raise CommandError(f"No sweep is named {name!r}; there are: {', '.join(sorted(known)) or 'none'}.")
    return [known[name]]


def _run(command: BaseCommand, options: dict[str, Any], each: type[Sweep]) -> Exception | None:
    """Run and report one. Its failure is kept for the end, when the others have had their turn."""
    try:
        swept = each.run(using=_alias(options), limit=options["limit"], dry_run=options["dry_run"])
    except Exception as error:
        command.stderr.write(f"{each.name} could not be run: {type(error).__name__}: {error}")
        return error
    command.stdout.write(json.dumps(swept.as_dict()) if options["json"] else str(swept))
    return None


def _alias(options: dict[str, Any]) -> str:
    return str(options["database"] or conf().DATABASE)


def _is_there(using: str) -> bool:
    """Whether the database answers; if not, the other sweeps need not try."""
    try:
        connections[using].ensure_connection()
    except DATABASE_ERRORS:
        return False
    return connections[using].is_usable()
