"""`duebox audit`: look into the audit log, prove it, carry it out, let its oldest entries go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.entrypoints import audit_entries, audit_prune, audit_verify
from duebox.exceptions import InvalidAudit


class Verb(NamedTuple):
    run: Callable[[BaseCommand, dict[str, Any]], None]
    add_options: Callable[[CommandParser], None]


VERBS = {
    "list": Verb(audit_entries.show, audit_entries.add_list_options),
    "export": Verb(audit_entries.export, audit_entries.add_export_options),
    "verify": Verb(audit_verify.verify, audit_verify.add_options),
    "prune": Verb(audit_prune.prune, audit_prune.add_options),
}


def add_audit_options(parser: CommandParser) -> None:
    verbs = parser.add_subparsers(dest="audit", required=True, metavar="|".join(VERBS))
    for name, verb in VERBS.items():
        text = verb.run.__doc__
        below = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        verb.add_options(below)
        below.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def audit(command: BaseCommand, options: dict[str, Any]) -> None:
    """Look into the audit log, verify it, export it, or let its oldest entries go."""
    try:
        VERBS[options["audit"]].run(command, options)
    except InvalidAudit as error:
        raise CommandError(str(error)) from error
