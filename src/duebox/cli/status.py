"""`duebox status`, `duebox health` and `duebox doctor`: the backlog, failures, workers, and what is wrong."""

from __future__ import annotations

import argparse
import json
import socket
from dataclasses import fields
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from duebox.conf import conf
from duebox.events.identities import printable
from duebox.observe.doctor import FAILED, OK, Finding, examine
from duebox.observe.status import Status, Thresholds
from duebox.observe.status import status as read_status
from duebox.store.leases import Heartbeat, heartbeats


def add_health_options(parser: CommandParser) -> None:
    parser.add_argument("--host", default=socket.gethostname(), help="check the workers of this host (the local one)")
    parser.add_argument(
        "--patient",
        action="store_true",
        help="an unreachable database is not a failure: restarting the worker would not help",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def health(command: BaseCommand, options: dict[str, Any]) -> None:
    """Check whether a worker of this host has a fresh heartbeat, for probes. Exit with 0 if so, otherwise with 1."""
    try:
        found = heartbeats(options["database"] or conf().DATABASE, options["host"])
    except OperationalError:
        if not options["patient"]:
            raise
        unknown = json.dumps({"alive": None, "workers": []})
        command.stdout.write(unknown if options["json"] else "The database does not answer, so the status is unknown.")
        return
    beating = [heart for heart in found if heart.seconds_left > 0]
    if options["json"]:
        command.stdout.write(json.dumps({"alive": bool(beating), "workers": [heart._asdict() for heart in found]}))
    if not beating:
        raise CommandError(_no_heartbeat(options["host"], found))
    if not options["json"]:
        for heart in beating:
            command.stdout.write(f"{heart.name} ({heart.mode}), heartbeat {heart.beat_seconds_ago:.1f} s ago")


def _no_heartbeat(host: str, found: list[Heartbeat]) -> str:
    if not found:
        return f"No worker of host {host!r} has a lease; start one: manage.py duebox worker"
    last = found[-1]
    return (
        f"No worker of host {host!r} has a fresh heartbeat; the last was that of {last.name}, "
        f"{last.beat_seconds_ago:.0f} s ago. It hangs or was killed: restart it."
    )


def add_status_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("thresholds of problems")
    for name, what in (
        ("age", "a delivery has been due for longer than this (60)"),
        ("overdue", "a schedule is later than this (60)"),
        ("unsealed", "an audit entry has waited longer than this for its seal (60)"),
    ):
        group.add_argument(
            f"--max-{name}", type=_not_negative, default=getattr(Thresholds(), name), metavar="SECONDS", help=what
        )
    for name, what in (
        ("due", "more deliveries than this are due (no limit)"),
        ("retrying", "more than this wait for their next try (no limit)"),
        ("dead", "there are more dead letters than this (no limit)"),
    ):
        group.add_argument(f"--max-{name}", type=_count, metavar="N", help=what)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def status(command: BaseCommand, options: dict[str, Any]) -> None:
    """Show due, failed and scheduled work, and problems. Exit with 1 if there is a problem."""
    limits = Thresholds(**{each.name: options[f"max_{each.name}"] for each in fields(Thresholds)})
    found = read_status(thresholds=limits, using=options["database"])
    problems = [printable(each) for each in found.problems()]
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
        ("audit", f"{number('unsealed')} not sealed"),
    ]


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 on")
    return number


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def add_doctor_options(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one finding a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to look at (DUEBOX['DATABASE'])")


def doctor(command: BaseCommand, options: dict[str, Any]) -> None:
    """Look for what is wrong with the installation, each finding with its repair. Exit with 1 if there is an error."""
    found = examine(options["database"])
    for each in found:
        command.stdout.write(json.dumps(each.as_dict()) if options["json"] else _finding(each))
    if errors := sum(each.level == FAILED for each in found):
        raise CommandError(f"{errors} error{'' if errors == 1 else 's'}.")


def _finding(found: Finding) -> str:
    value = f" ({found.value})" if found.value else ""
    line = f"{found.level:<7}  {found.topic:<12}  {found.fact.rstrip('.')}{value}"
    repair = f"\n{'':23}{found.repair}" if found.level != OK and found.repair else ""
    return printable(line) + repair
