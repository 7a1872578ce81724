"""`duebox plan --tzdata`: bring schedules in line with the zone database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from duebox.entrypoints.terminal import DRY_RUN, aligned, progress, readable
from duebox.rezone import Rezoned, rezone
from duebox.store import schedules
from duebox.store.schedules import TrailLine
from duebox.when import local_time, zones

SHOWN_MOVES = 20


def follow_tzdata(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    """Rezone, and say what moved."""
    if options["name"]:
        raise CommandError(f"--tzdata looks at all schedules; leave out {' '.join(options['name'])}.")
    with progress(command, "zone database", quiet=options["json"]) as tell:
        done = rezone(using, dry_run=options["dry_run"], progress=tell)
    if options["json"]:
        told = {"source": zones.current().source, "dry_run": options["dry_run"], "moves": _moves(done.moves, using)}
        command.stdout.write(json.dumps({**asdict(done), **told}))
        return
    command.stdout.write("\n".join(_zones_in_words(done)))
    if done.moves:
        command.stdout.write("\n".join(_moves_in_words(done.moves, using)))
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _zones_in_words(done: Rezoned) -> list[str]:
    database = f"Zone database {done.release} ({zones.current().source})"
    if not done.zones:
        return [f"{database}: all schedules follow it already."]
    rows = [(name, str(count)) for name, count in sorted(done.zones.items())]
    counts = f"{done.checked} checked, {done.moved} moved, {done.missed} missed."
    return [f"{database} has other rules than before:", *aligned(("zone", "schedules"), rows), counts]


def _moves(lines: Sequence[TrailLine], using: str) -> list[dict[str, Any]]:
    """Old and new as clocks will show them: by the new rules, the old instant is at another local time."""
    rows = schedules.rows(using).filter(key__in=[line.source for line in lines])
    zone_of = dict(rows.values_list("key", "zone"))
    return [
        {
            "what": line.what,
            "key": line.source,
            "occurrence": line.occurrence,
            "zone": zone_of[line.source],
            "old": line.due_before.isoformat() if line.due_before else None,
            "old_local": _local(line.due_before, zone_of[line.source]),
            "new": line.due_after.isoformat() if line.due_after else None,
            "new_local": _local(line.due_after, zone_of[line.source]),
        }
        for line in lines
    ]


def _moves_in_words(lines: Sequence[TrailLine], using: str) -> list[str]:
    rows = [
        (move["what"], move["key"], move["zone"], _pair(move["old_local"], move["new_local"]),
         _pair(move["old"], move["new"]))
        for move in _moves(lines[:SHOWN_MOVES], using)
    ]  # fmt: skip
    more = [f"and {len(lines) - len(rows)} more; --json lists all"] if len(lines) > len(rows) else []
    return [*aligned(("what", "key", "zone", "local", "utc"), rows), *more]


def _pair(old: str | None, new: str | None) -> str:
    return " -> ".join(readable(datetime.fromisoformat(each)) if each else "never" for each in (old, new))


def _local(moment: datetime | None, zone: str) -> str | None:
    return local_time(moment, zone).isoformat() if moment else None
