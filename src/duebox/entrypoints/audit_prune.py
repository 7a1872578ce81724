"""`duebox audit prune`: let the oldest entries of the audit log go."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing import prune as let_go
from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.terminal import DRY_RUN, aligned, operator_actor
from duebox.entrypoints.worker import positive


def add_options(parser: CommandParser) -> None:
    parser.add_argument("--years", type=positive, metavar="N", help="keep so many years (DUEBOX['AUDIT_YEARS'])")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("--json", action="store_true", help="print JSON, one organization a line")


def prune(command: BaseCommand, options: dict[str, Any]) -> None:
    """Remove what is older than AUDIT_YEARS. It is verified first; where something is wrong, it stays."""
    using, dry_run = options["database"] or conf().DATABASE, options["dry_run"]
    done = []
    for each in let_go(using, years=options["years"], dry_run=dry_run, actor=operator_actor()):
        done.append(each)
        if options["json"]:
            flaw = str(each.flaw) if each.flaw else None
            command.stdout.write(json.dumps({**each._asdict(), "flaw": flaw, "dry_run": dry_run}))
    if not options["json"]:
        years = options["years"] or conf().AUDIT_YEARS
        rows = [(printable(each.organization) or "(none)", str(each.entries)) for each in done]
        lines = aligned(("organization", "entries"), rows) if rows else [f"Nothing is older than {years} years."]
        command.stdout.write("\n".join([*lines, DRY_RUN] if dry_run and rows else lines))
    flawed = [f"{printable(each.organization) or '(none)'}: {each.flaw}" for each in done if each.flaw]
    if flawed:
        raise CommandError(
            "Not pruned, since something is wrong there; run `duebox audit verify`:\n  " + "\n  ".join(flawed)
        )
