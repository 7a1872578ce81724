"""`duebox health`: whether a worker of this host has a heartbeat. For the probes of whatever keeps it running."""

from __future__ import annotations

import json
import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from duebox.conf import conf
from duebox.store.leases import Heart, hearts


def add_health_options(parser: CommandParser) -> None:
    parser.add_argument("--host", default=socket.gethostname(), help="whose workers to ask for (this host)")
    parser.add_argument(
        "--patient",
        action="store_true",
        help="a database that cannot be reached is no failure: a restart of the worker would not bring it back",
    )
    parser.add_argument("--json", action="store_true", help="print what is known as JSON")
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def health(command: BaseCommand, options: dict[str, Any]) -> None:
    """Say whether a worker of this host has a fresh heartbeat, for probes. Exit with 0 if so, else with 1."""
    try:
        found = hearts(options["database"] or conf().DATABASE, options["host"])
    except OperationalError:
        if not options["patient"]:
            raise
        unknown = json.dumps({"alive": None, "workers": []})
        command.stdout.write(unknown if options["json"] else "The database is away; nobody can know.")
        return
    beating = [heart for heart in found if heart.seconds_left > 0]
    if options["json"]:
        command.stdout.write(json.dumps({"alive": bool(beating), "workers": [heart._asdict() for heart in found]}))
    if not beating:
        raise CommandError(_no_heartbeat(options["host"], found))
    if not options["json"]:
        for heart in beating:
            command.stdout.write(f"{heart.name} ({heart.mode}), heartbeat {heart.beat_seconds_ago:.1f} s ago")


def _no_heartbeat(host: str, found: list[Heart]) -> str:
    if not found:
        return f"No worker of host {host!r} has a lease; start one: manage.py duebox worker"
    last = found[-1]
    return (
        f"No worker of host {host!r} has a fresh heartbeat; the last was that of {last.name}, "
        f"{last.beat_seconds_ago:.0f} s ago. It hangs or was killed: restart it."
    )
