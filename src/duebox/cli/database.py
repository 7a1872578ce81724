"""`duebox capture` and `duebox sql`: the triggers of Duebox, and statements for an administrator to run."""

from __future__ import annotations

import argparse
import json
import re
from importlib.resources import files
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from duebox.audit_log.triggers import Unrecorded, followed_models, unrecordable, unrecorded
from duebox.cli.output import Group, Verb, aligned
from duebox.conf import conf
from duebox.integrations.debezium import PUBLICATION, ROUTES, Connector
from duebox.schedules.capture import Table, Unfollowed, install, is_ready, tables, unfollowed
from duebox.store.destinations import capture_state

NOT_READY = "The Duebox tables are missing; run: manage.py migrate duebox --database {using}"


def add_capture_options(parser: CommandParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--sql", action="store_true", help="only print the SQL that would install missing triggers")
    how.add_argument("--install", action="store_true", help="install them now, as migrate does")
    parser.add_argument("--json", action="store_true", help="print JSON, one table a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def capture(command: BaseCommand, options: dict[str, Any]) -> None:
    """List the followed tables and their triggers. Exit with 1 if one is not installed."""
    using = options["database"] or conf().DATABASE
    if not is_ready(using):
        raise CommandError(NOT_READY.format(using=using))
    if options["sql"]:
        command.stdout.write("".join(each.sql for each in tables(using)), ending="")
        return
    errors = {_name(each): each.error for each in install(using) if each.error} if options["install"] else {}
    found = tables(using)
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps(_as_dict(each, errors)))
    else:
        command.stdout.write("\n".join(_lines(found, [*unfollowed(using), *_unrecorded(using)], using)))
    if errors:
        raise CommandError(_not_made(errors))
    _refuse_others(found)


def _unrecorded(using: str) -> list[Unrecorded]:
    return [*filter(None, map(unrecordable, followed_models())), *unrecorded(using)]


def _name(table: Table) -> tuple[str, str]:
    return table.table, table.purpose


def _as_dict(table: Table, errors: dict[tuple[str, str], str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "table": table.table,
        "for": table.purpose,
        "state": table.state,
        "entity_types": list(table.sources),
    }
    return found | ({"error": errors[_name(table)]} if _name(table) in errors else {})


def _lines(found: list[Table], others: list[Unfollowed | Unrecorded], using: str) -> list[str]:
    rows = [(each.table, each.purpose, each.state, ", ".join(each.sources)) for each in found]
    lines = aligned(("table", "for", "triggers", "entity types"), rows) if rows else []
    lines += dict.fromkeys(f"{each.model._meta.label} cannot have triggers: {each.why}." for each in others)
    return lines or [f"Neither a plan nor the audit log follows any table of database {using!r}."]


def _not_made(errors: dict[tuple[str, str], str]) -> str:
    lines = [f"{table} (for {purpose}): {error.splitlines()[0]}" for (table, purpose), error in errors.items()]
    return (
        "The triggers of these tables could not be changed; see `manage.py check --database` for the rights that are "
        "needed:\n  " + "\n  ".join(lines)
    )


def _refuse_others(found: list[Table]) -> None:
    wrong = [each for each in found if each.state != "installed"]
    if wrong:
        which = "1 table is" if len(wrong) == 1 else f"{len(wrong)} tables are"
        raise CommandError(
            f"The triggers of {which} not up to date; run: manage.py duebox capture --install\n"
            "See what it would do with --sql."
        )


_FUNCTION = re.compile(r"[a-zA-Z0-9:_$-]{1,256}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


def trigger(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print a trigger for Aurora or RDS that wakes a Lambda function."""
    region = f"'{options['region']}'::text" if options["region"] else "NULL::text"
    command.stdout.write(aurora_trigger(options["function"], region), ending="")


def cdc(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print the configuration of a Debezium connector, for change-data-capture."""
    using = options["database"] or conf().DATABASE
    state = capture_state(using, PUBLICATION)
    chosen = {name: options[name] for name in ("name", "topic_prefix", "route_by")}
    connector = Connector(database=connections[using].settings_dict, schema=state.schema, **chosen)
    configuration = json.dumps(connector.as_dict(), indent=2)
    if options["json"]:
        command.stdout.write(configuration)
        return
    command.stdout.write("On the database server, once:\n")
    for step in connector.server_steps(wal_level=state.wal_level, published=state.published):
        command.stdout.write(f"  {step}")
    command.stdout.write("\nIn Kafka Connect, with the password in the file that is named there:\n")
    command.stdout.write(configuration)
    command.stdout.write("\nConnect to PostgreSQL itself, not through a pooler. Take Kafka out of DUEBOX['ROUTES'].")


def aurora_trigger(function: str, region: str) -> str:
    template = files("duebox.cli").joinpath("templates", "aurora_trigger.sql.txt").read_text()
    return template.replace("{function}", function).replace("{region}", region)


def _add_trigger_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--function", type=_function_name, required=True, metavar="ARN", help="the Lambda function to invoke"
    )
    parser.add_argument(
        "--region", type=_region_name, help="its region, if it is neither in its ARN nor that of the database"
    )


def _add_cdc_options(parser: CommandParser) -> None:
    parser.add_argument("--name", default="duebox", help="of the connector (duebox)")
    parser.add_argument("--topic-prefix", default="duebox", help="topics are called <prefix>.<value> (duebox)")
    parser.add_argument("--route-by", choices=ROUTES, default=ROUTES[0], help="the value in it (aggregate_type)")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose events to capture (DUEBOX['DATABASE'])")
    parser.add_argument("--json", action="store_true", help="print only the configuration")


def _function_name(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the ARN or the name of a Lambda function")
    return text


def _region_name(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a region, such as eu-central-1")
    return text


SQL = Group(
    "SQL",
    "Print statements and configuration for a database server.",
    {"trigger": Verb(trigger, _add_trigger_options), "cdc": Verb(cdc, _add_cdc_options)},
)
