"""`duebox cdc connector`: let change-data-capture take over where the volume is very high."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from duebox.conf import conf
from duebox.destinations.debezium import PUBLICATION, ROUTES, Connector
from duebox.exceptions import InvalidDestination
from duebox.store.capture import capture_state


def add_cdc_options(parser: CommandParser) -> None:
    parser.add_argument("what", choices=["connector"], help="print the configuration of a Debezium connector")
    parser.add_argument("--name", default="duebox", help="of the connector (duebox)")
    parser.add_argument("--topic-prefix", default="duebox", help="topics are called <prefix>.<value> (duebox)")
    parser.add_argument("--route-by", choices=ROUTES, default=ROUTES[0], help="the value in it (aggregate_type)")
    parser.add_argument("--database", help="the alias whose events to capture (DUEBOX['DATABASE'])")
    parser.add_argument("--json", action="store_true", help="print only the configuration")


def cdc(command: BaseCommand, options: dict[str, Any]) -> None:
    """Configure change-data-capture: events go to Kafka from the log of the database."""
    using = options["database"] or conf().DATABASE
    state = capture_state(using, PUBLICATION)
    connector = _connector(using, state.schema, options)
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


def _connector(using: str, schema: str, options: dict[str, Any]) -> Connector:
    chosen = {name: options[name] for name in ("name", "topic_prefix", "route_by")}
    try:
        return Connector(database=connections[using].settings_dict, schema=schema, **chosen)
    except InvalidDestination as error:
        raise CommandError(str(error)) from error
