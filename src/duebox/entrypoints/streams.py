"""`duebox streams`: which streams do not move, and why."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.subscriber_names import stored_name
from duebox.entrypoints.terminal import aligned, readable
from duebox.entrypoints.worker import positive
from duebox.store import streams as store


def add_streams_options(parser: CommandParser) -> None:
    parser.add_argument("--subscriber", help="of this handler or destination")
    parser.add_argument("--limit", type=positive, default=50, help="how many to list (50)")
    parser.add_argument("--json", action="store_true", help="print JSON, one stream a line")
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def streams(command: BaseCommand, options: dict[str, Any]) -> None:
    """List ordered streams that are blocked by their first delivery; those with the most behind it first."""
    using = options["database"] or conf().DATABASE
    subscriber = stored_name(using, options["subscriber"]) if options["subscriber"] else None
    found = store.blocked(using, subscriber=subscriber, limit=options["limit"])
    if options["json"]:
        for each in found:
            command.stdout.write(json.dumps(each.as_dict()))
        return
    head = ("waiting", "subscriber", "stream", "head", "why", "since, utc")
    for line in aligned(head, [_cells(each) for each in found]) if found else ["No stream is blocked."]:
        command.stdout.write(line)
    if any(each.status != "pending" for each in found):
        command.stdout.write("A dead or parked head lets them go: manage.py duebox redrive HEAD, or discard HEAD")


def _cells(each: store.Blocked) -> tuple[str, ...]:
    until = f", until {readable(each.due_at.replace(microsecond=0))}" if each.status == "pending" else ""
    since = readable(each.since.replace(microsecond=0))
    waiting = f"{each.waiting:,}+" if each.more_wait else str(each.waiting)
    return waiting, each.subscriber, printable(each.stream), str(each.head), f"{each.why}{until}", since
