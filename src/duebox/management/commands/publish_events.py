from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from duebox.cli import worker
from duebox.cli.output import PlainCommand


class Command(PlainCommand):
    help = "Deliver events: once, or again and again with --poll-interval. `duebox worker` and `duebox once` do more."

    def add_arguments(self, parser: CommandParser) -> None:
        how = parser.add_mutually_exclusive_group(required=True)
        how.add_argument("--once", action="store_true", help="deliver what is due and exit")
        how.add_argument(
            "--poll-interval", type=worker.seconds, metavar="SECONDS", help="keep running, look this often"
        )
        parser.add_argument("--batch-size", type=worker.positive, help="deliveries per claim (DUEBOX['BATCH_SIZE'])")

    def run(self, options: dict[str, Any]) -> None:
        chosen = {**options, "database": None, "threads": None, "processes": 1, "only": [], "json": False}
        run = worker.once if options["once"] else worker.worker
        run(self, chosen)
