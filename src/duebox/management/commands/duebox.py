from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy
from typing import Any

from django.core.management.base import CommandParser

from duebox.cli import (
    audit,
    database,
    deliveries,
    destinations,
    endpoints,
    events,
    imports,
    observe,
    plan,
    preview,
    retention,
    schedules,
    schemas,
    slo,
    status,
    worker,
)
from duebox.cli.output import Group, PlainCommand, Verb, add_verbs, operator_actor, overview
from duebox.context.origins import bound

RUNNING = {
    "worker": Verb(worker.worker, worker.add_worker_options),
    "once": Verb(worker.once, worker.add_once_options),
    "status": Verb(status.status, status.add_status_options),
    "slo": Verb(slo.slo, slo.add_options),
    "advise": Verb(slo.advise, slo.add_options),
    "show": Verb(observe.show, observe.add_show_options),
    "explain": Verb(observe.explain, observe.add_explain_options),
    "watch": Verb(observe.watch, observe.add_watch_options),
    "health": Verb(status.health, status.add_health_options),
    "preview": Verb(preview.preview, preview.add_preview_options),
    "plan": Verb(plan.plan, plan.add_plan_options),
    "capture": Verb(database.capture, database.add_capture_options),
    "sweep": Verb(plan.sweep, plan.add_sweep_options),
    "doctor": Verb(status.doctor, status.add_doctor_options),
    "prune": Verb(retention.prune, retention.add_prune_options),
    "erase": Verb(retention.erase, retention.add_erase_options),
}
GROUPS = {
    "events": Group(
        "Events",
        "See who receives an event, send events again, and write documents of their types.",
        {
            "routes": Verb(events.routes, events.add_routes_options),
            "replay": events.REPLAY,
            "docs": Verb(events.documents, events.add_documents_options),
        },
    ),
    "schedules": schedules.SCHEDULES,
    "deliveries": deliveries.DELIVERIES,
    "destinations": destinations.DESTINATIONS,
    "endpoints": endpoints.WEBHOOK_ENDPOINTS,
    "schemas": schemas.SCHEMAS,
    "audit": audit.AUDIT,
    "sql": database.SQL,
    "import": imports.IMPORT,
}


class Command(PlainCommand):
    help = "Run and look after Duebox."
    missing_args_message = "Name a command; `manage.py duebox --help` lists them."

    def add_arguments(self, parser: CommandParser) -> None:
        of_django = [action for action in parser._actions if action.option_strings and action.dest != "help"]
        parser.usage = "%(prog)s COMMAND ..."
        parser.description = f"{self.help} `%(prog)s COMMAND --help` explains one.\n\n{overview(RUNNING, GROUPS)}"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        for action in of_django:
            action.help = argparse.SUPPRESS  # each command of Django has them, and `manage.py help` explains them
        add_verbs(parser, {**RUNNING, **GROUPS}, dest="verb", listed=False)
        _let_follow(parser, of_django)

    def run(self, options: dict[str, Any]) -> None:
        # The user who runs a command is the actor in the audit log.
        with bound(actor=operator_actor()) if options["verb"] in GROUPS else nullcontext():
            options["run"](self, options)


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
