"""`duebox audit`: list, export, verify and prune the audit log."""

from __future__ import annotations

from collections.abc import Callable

from django.core.management.base import CommandParser

from duebox.entrypoints import audit_entries, audit_prune, audit_verify
from duebox.entrypoints.verbs import Group, Verb


def _with_database(add_options: Callable[[CommandParser], None]) -> Callable[[CommandParser], None]:
    def add(parser: CommandParser) -> None:
        add_options(parser)
        parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")

    return add


AUDIT = Group(
    "Audit log",
    "List, export, verify or prune the audit log.",
    {
        "list": Verb(audit_entries.show, _with_database(audit_entries.add_list_options)),
        "export": Verb(audit_entries.export, _with_database(audit_entries.add_export_options)),
        "verify": Verb(audit_verify.verify, _with_database(audit_verify.add_options)),
        "prune": Verb(audit_prune.prune, _with_database(audit_prune.add_options)),
    },
)
