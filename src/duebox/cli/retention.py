"""`duebox prune` and `duebox erase`: remove old rows, and the personal data of one row."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from duebox.cli.output import DRY_RUN, aligned, operator_actor, progress
from duebox.conf import conf
from duebox.observe.find import find
from duebox.retention.erase import erase as erase_entity
from duebox.retention.prune import Pruned
from duebox.retention.prune import prune as remove_old
from duebox.store.retention import remaining

NEVER = "Nothing is ever removed: all RETENTION settings are None."


def add_prune_options(parser: CommandParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print how much would be removed")
    parser.add_argument("--json", action="store_true", help="print JSON, one kind a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def prune(command: BaseCommand, options: dict[str, Any]) -> None:
    """Remove events, dead letters, schedules and other rows that are older than the RETENTION settings."""
    using, dry_run = options["database"] or conf().DATABASE, options["dry_run"]
    with progress(command, "removed", quiet=options["json"] or dry_run, total=lambda: _old(using)) as advance:
        done = remove_old(using, dry_run=dry_run, progress=advance)
    left = remaining(using)
    if options["json"]:
        for each in done:
            command.stdout.write(json.dumps({**each.as_dict(), "remaining": left[each.what], "dry_run": dry_run}))
        return
    command.stdout.write("\n".join(_table(done, left) if done else [NEVER]))
    if dry_run:
        command.stdout.write(DRY_RUN)


def _old(using: str) -> int:
    """How many rows there are to look at."""
    counts: list[int] = []
    remove_old(using, dry_run=True, progress=counts.append)
    return sum(counts)


def _table(done: list[Pruned], left: dict[str, int]) -> list[str]:
    rows = [
        (each.what, str(each.days), str(each.removed), str(each.bare) if each.bare else "", str(left[each.what]))
        for each in done
    ]
    return aligned(("what", "days", "removed", "kept for their key", "remaining"), rows)


def add_erase_options(parser: CommandParser) -> None:
    parser.add_argument("entity", metavar="TYPE:ID", help="the row, as in shop.customer:42")
    parser.add_argument("--force", action="store_true", help="discard its open deliveries, cancel its live schedules")
    parser.add_argument("--reason", default="", help="stored in the audit log; must not contain personal data")
    parser.add_argument("--dry-run", action="store_true", help="only print how much would be erased")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def erase(command: BaseCommand, options: dict[str, Any]) -> None:
    """Erase the personal data that is stored about one row. The events, and a record of the erasure, stay."""
    found = find(options["entity"], kind="entity", using=options["database"])
    done = erase_entity(
        found.entity,
        force=options["force"],
        dry_run=options["dry_run"],
        actor=operator_actor(),
        reason=options["reason"],
        using=options["database"],
    )
    if options["json"]:
        command.stdout.write(json.dumps({**done.as_dict(), "dry_run": options["dry_run"]}))
        return
    rows = [(name.replace("_", " "), str(count)) for name, count in done.as_dict().items() if name != "entity"]
    command.stdout.write("\n".join(aligned(("of " + done.entity, "erased"), rows)))
    if done.unsealed:
        command.stdout.write(f"{done.unsealed} audit entries are not sealed yet; run it again in a moment.")
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)
