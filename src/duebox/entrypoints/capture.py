"""`duebox capture`: the triggers on the tables that plans follow."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.capture import Table, Unfollowed, install, is_ready, tables, unfollowed
from duebox.conf import conf
from duebox.entrypoints.terminal import aligned

NOT_READY = "The Duebox tables are missing; run: manage.py migrate duebox --database {using}"


def add_capture_options(parser: CommandParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--sql", action="store_true", help="only print the SQL that would put right what is not installed")
    how.add_argument("--install", action="store_true", help="put it right now, as migrate does")
    parser.add_argument("--json", action="store_true", help="print JSON, one table a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def capture(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the tables that plans follow and their triggers. Exit with 1 if one is not installed."""
    using = options["database"] or conf().DATABASE
    if not is_ready(using):
        raise CommandError(NOT_READY.format(using=using))
    if options["sql"]:
        command.stdout.write("".join(each.sql for each in tables(using)), ending="")
        return
    errors = {each.table: each.error for each in install(using) if each.error} if options["install"] else {}
    found = tables(using)
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps(_as_dict(each, errors)))
    else:
        command.stdout.write("\n".join(_lines(found, unfollowed(using), using)))
    if errors:
        raise CommandError(_not_made(errors))
    _refuse_others(found)


def _as_dict(table: Table, errors: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"table": table.table, "state": table.state, "entity_types": list(table.sources)}
    return found | ({"error": errors[table.table]} if table.table in errors else {})


def _lines(found: list[Table], others: list[Unfollowed], using: str) -> list[str]:
    rows = [(each.table, each.state, ", ".join(each.sources)) for each in found]
    lines = aligned(("table", "triggers", "entity types"), rows) if rows else []
    lines += [f"{each.model._meta.label} cannot have triggers: {each.why}." for each in others]
    if not lines and not conf().CAPTURE:
        return ["Plans follow no table by triggers; set DUEBOX['CAPTURE'] to True and run migrate."]
    return lines or [f"No plan follows any table of database {using!r}."]


def _not_made(errors: dict[str, str]) -> str:
    lines = [f"{table}: {error.splitlines()[0]}" for table, error in errors.items()]
    return (
        "The triggers of these tables could not be changed; see `manage.py check --database` for the rights that are "
        "needed:\n  " + "\n  ".join(lines)
    )


def _refuse_others(found: list[Table]) -> None:
    wrong = [each for each in found if each.state != "installed"]
    if wrong:
        which = "1 table is" if len(wrong) == 1 else f"{len(wrong)} tables are"
        raise CommandError(
            f"The triggers of {which} not as they should be; run: manage.py duebox capture --install\n"
            "See what it would do with --sql."
        )
