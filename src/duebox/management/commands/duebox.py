from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandParser

from duebox.entrypoints import (
    alive,
    audit,
    cdc,
    dead,
    destinations,
    documents,
    endpoints,
    plan,
    preview,
    redrive,
    replay,
    routes,
    schemas,
    sql,
    streams,
    sweep,
    worker,
)
from duebox.entrypoints.errors import plain_errors


class Verb(NamedTuple):
    run: Callable[[BaseCommand, dict[str, Any]], None]
    add_options: Callable[[CommandParser], None]


VERBS = {
    "worker": Verb(worker.worker, worker.add_worker_options),
    "once": Verb(worker.once, worker.add_once_options),
    "alive": Verb(alive.alive, alive.add_alive_options),
    "preview": Verb(preview.preview, preview.add_preview_options),
    "plan": Verb(plan.plan, plan.add_plan_options),
    "sweep": Verb(sweep.sweep, sweep.add_sweep_options),
    "routes": Verb(routes.routes, routes.add_routes_options),
    "destinations": Verb(destinations.destinations, destinations.add_destinations_options),
    "pause": Verb(destinations.pause, destinations.add_pause_options),
    "resume": Verb(destinations.resume, destinations.add_resume_options),
    "dead": Verb(dead.dead, dead.add_dead_options),
    "redrive": Verb(redrive.redrive, redrive.add_redrive_options),
    "park": Verb(redrive.park, redrive.add_park_options),
    "discard": Verb(redrive.discard, redrive.add_discard_options),
    "streams": Verb(streams.streams, streams.add_streams_options),
    "replay": Verb(replay.replay, replay.add_replay_options),
    "schemas": Verb(schemas.schemas, schemas.add_schemas_options),
    "docs": Verb(documents.documents, documents.add_documents_options),
    "audit": Verb(audit.audit, audit.add_audit_options),
    "endpoints": Verb(endpoints.endpoints, endpoints.add_endpoints_options),
    "cdc": Verb(cdc.cdc, cdc.add_cdc_options),
    "sql": Verb(sql.sql, sql.add_sql_options),
}


class Command(BaseCommand):
    help = "Run and look after Duebox."

    def add_arguments(self, parser: CommandParser) -> None:
        of_django = [action for action in parser._actions if action.option_strings and action.dest != "help"]
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS))
        for name, verb in VERBS.items():
            text = verb.run.__doc__
            # No abbreviations: the supervisor must recognise --processes to leave it out for its children.
            verb.add_options(verbs.add_parser(name, help=text, description=text, allow_abbrev=False))
        _let_follow(parser, of_django)

    def handle(self, *args: Any, **options: Any) -> None:
        with plain_errors():
            VERBS[options["verb"]].run(self, options)


def _let_follow(parser: argparse.ArgumentParser, options: Sequence[argparse.Action]) -> None:
    """Django's own options may stand after the verb, too. One that is left out there says nothing, or it would undo
    what was said before the verb."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for below in action.choices.values():
            for each in options:
                if not set(each.option_strings) & set(below._option_string_actions):
                    again = copy(each)
                    again.default = again.help = argparse.SUPPRESS
                    below._add_action(again)
            _let_follow(below, options)
