"""`duebox status`: what is due, what failed, what comes, who is there to do it, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing.text import printable
from duebox.status import Status
from duebox.status import status as read_status


def add_status_options(parser: CommandParser) -> None:
    parser.add_argument("--strict", action="store_true", help="dead letters are wrong, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def status(command: BaseCommand, options: dict[str, Any]) -> None:
    """Say what is due, failed and to come, and what is wrong. Exit with 1 if something is."""
    found = read_status(using=options["database"])
    problems = [printable(each) for each in found.problems(strict=options["strict"])]
    if options["json"]:
        command.stdout.write(json.dumps({**found.as_dict(), "problems": problems}))
    else:
        for name, text in _lines(found):
            command.stdout.write(f"{name:<10}  {text}")
    if problems:
        raise CommandError("\n".join(problems))
    if not options["json"]:
        command.stdout.write("Nothing is wrong.")


def _lines(found: Status) -> list[tuple[str, str]]:
    number = found.number
    oldest = f", the oldest for {found.oldest_due_seconds:,.1f} s" if found.oldest_due_seconds is not None else ""
    held = f"; {number('held_back')} more held back by paused or failing destinations" if found.held_back else ""
    listening = f", {found.listening} listening" if found.workers else ""
    ahead = ", ".join(f"{number(f'schedules_next_{span}')} in the next {span}" for span in ("minute", "hour", "day"))
    orphans = ", ".join(each.subscriber for each in found.orphaned) or "none"
    return [
        ("due", f"{number('due')}{oldest}{held}"),
        ("running", number("running")),
        ("retrying", number("retrying")),
        ("later", number("later")),
        ("waiting", number("waiting")),
        ("dead", number("dead")),
        ("parked", number("parked")),
        ("orphaned", printable(orphans)),
        ("schedules", f"{ahead}; {number('schedules_overdue')} overdue"),
        ("workers", f"{found.workers}{listening}"),
    ]
