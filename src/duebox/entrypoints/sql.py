"""`duebox sql`: statements and configuration for a database that is not ours to change."""

from __future__ import annotations

import argparse
import json
import re
from importlib.resources import files
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from duebox.conf import conf
from duebox.destinations.debezium import PUBLICATION, ROUTES, Connector
from duebox.entrypoints.verbs import Group, Verb
from duebox.store.capture import capture_state

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
    told = json.dumps(connector.as_dict(), indent=2)
    if options["json"]:
        command.stdout.write(told)
        return
    command.stdout.write("On the database server, once:\n")
    for step in connector.server_steps(wal_level=state.wal_level, published=state.published):
        command.stdout.write(f"  {step}")
    command.stdout.write("\nIn Kafka Connect, with the password in the file that is named there:\n")
    command.stdout.write(told)
    command.stdout.write("\nConnect to PostgreSQL itself, not through a pooler. Take Kafka out of DUEBOX['ROUTES'].")


def aurora_trigger(function: str, region: str) -> str:
    template = files("duebox.entrypoints").joinpath("templates", "aurora_trigger.sql.txt").read_text()
    return template.replace("{function}", function).replace("{region}", region)


def _add_trigger_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--function", type=_function_name, required=True, metavar="ARN", help="the Lambda function to invoke"
    )
    parser.add_argument("--region", type=_region_name, help="its region, if neither its ARN nor the database's says it")


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
