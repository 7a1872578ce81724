"""`duebox worker` and `duebox once`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from contextlib import nullcontext, redirect_stdout
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from duebox.cli.output import show_logs
from duebox.conf import conf
from duebox.events.subscribers import matching
from duebox.worker.health import HealthServer
from duebox.worker.supervisor import Supervisor, run_worker
from duebox.worker.worker import Worker


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def add_worker_options(parser: CommandParser) -> None:
    parser.add_argument("--threads", type=positive, help="handler threads (DUEBOX['THREADS'])")
    parser.add_argument("--processes", type=positive, default=1, help="worker processes to keep running (1)")
    parser.add_argument(
        "--health-port", type=positive, metavar="PORT", help="answer /live, /ready and /metrics (DUEBOX['HEALTH_PORT'])"
    )
    parser.add_argument("--health-host", metavar="ADDRESS", help="on this address (DUEBOX['HEALTH_HOST'])")
    _add_common(parser)


def add_once_options(parser: CommandParser) -> None:
    parser.add_argument("--threads", type=positive, help="handler threads (DUEBOX['THREADS'])")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    _add_common(parser)


def worker(command: BaseCommand, options: dict[str, Any]) -> None:
    """Fire schedules and deliver events until stopped by SIGTERM or SIGINT."""
    health_port = options.get("health_port") or conf().HEALTH_PORT
    if options["processes"] > 1:
        raise SystemExit(Supervisor(options["processes"], health_port).run())
    one = _worker(options)
    show_logs(logging.INFO if options["verbosity"] else logging.WARNING)
    command.stdout.write(
        f"Duebox worker on database {one.using!r}: {len(one.subscribers)} subscribers, "
        f"{options['threads'] or conf().THREADS} threads. Stop it with Ctrl-C."
    )
    host = options.get("health_host") or conf().HEALTH_HOST
    with HealthServer(one, host, health_port) if health_port else nullcontext():
        run_worker(one)


def once(command: BaseCommand, options: dict[str, Any]) -> None:
    """Fire and deliver what is due, and exit. For cron and Lambda."""
    one = _worker(options, until_idle=True)
    show_logs(logging.INFO if options["verbosity"] > 1 else logging.WARNING)
    # With --json stdout has only the counts: neither metrics in EMF nor the output of handlers.
    with redirect_stdout(sys.stderr) if options["json"] else nullcontext():
        run_worker(one)
    outcome_counts = one.outcome_counts
    command.stdout.write(json.dumps(outcome_counts.as_dict()) if options["json"] else str(outcome_counts))


def _add_common(parser: CommandParser) -> None:
    parser.add_argument("--database", help="the alias whose tables to serve (DUEBOX['DATABASE'])")
    parser.add_argument("--batch-size", type=positive, help="deliveries per claim (DUEBOX['BATCH_SIZE'])")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only subscribers whose name matches, as in 'mail.*'",
    )


def _worker(options: dict[str, Any], *, until_idle: bool = False) -> Worker:
    only = tuple(options["only"])
    if only and not matching(only):
        names = ", ".join(sorted({each.name for each in matching().values()})) or "none"
        raise SystemExit(f"--only {' '.join(only)} matches no subscriber; there are: {names}.")
    return Worker(
        using=options["database"],
        threads=options["threads"],
        batch=options["batch_size"],
        poll=options.get("poll_interval"),
        only=only,
        until_idle=until_idle,
    )
