"""`duebox plan` and `duebox sweep`: run on demand what a worker does periodically. Update schedules from their rows or
for a new zone database; run sweeps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django.db.models import Count, Min

from duebox.cli.output import DRY_RUN, aligned, progress, readable
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.schedules.plan_sync import Synced
from duebox.schedules.plans import Plan, plans
from duebox.schedules.sweep_run import DATABASE_ERRORS
from duebox.schedules.sweeps import Sweep, by_name
from duebox.schedules.tzdata_update import Rezoned, rezone
from duebox.store import schedules
from duebox.store.schedules import ScheduleLogLine
from duebox.when import local_time, zones

SHOWN_MOVES = 20


def follow_tzdata(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    """Rezone, and print what moved."""
    if options["name"]:
        raise CommandError(f"--tzdata applies to all schedules; leave out {' '.join(options['name'])}.")
    with progress(command, "zone database", quiet=options["json"]) as advance:
        done = rezone(using, dry_run=options["dry_run"], progress=advance)
    if options["json"]:
        report = {"source": zones.current().source, "dry_run": options["dry_run"], "moves": _moves(done.moves, using)}
        command.stdout.write(json.dumps({**asdict(done), **report}))
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


def _moves(lines: Sequence[ScheduleLogLine], using: str) -> list[dict[str, Any]]:
    """Old and new local times by the new rules, in which the old instant has another local time."""
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


def _moves_in_words(lines: Sequence[ScheduleLogLine], using: str) -> list[str]:
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


SHOWN_FAILURES = 10
NO_PLANS = "No plans are declared; subclass duebox.Plan in plans.py of an app."


def add_plan_options(parser: CommandParser) -> None:
    parser.add_argument("name", nargs="*", metavar="NAME", help="only these plans (all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="only list the plans and what they have")
    how.add_argument("--tzdata", action="store_true", help="plan schedules again that a new zone database moves")
    parser.add_argument("--dry-run", action="store_true", help="only print what would change")
    parser.add_argument("--json", action="store_true", help="print JSON, one plan a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def plan(command: BaseCommand, options: dict[str, Any]) -> None:
    """Update schedules from the rows of their models. With --tzdata, for a new zone database."""
    using = options["database"] or conf().DATABASE
    if options["tzdata"]:
        follow_tzdata(command, options, using)
    elif options["list"]:
        _list(command, options, using)
    else:
        _reconcile(command, options, using)


def no_such_plan(name: str) -> CommandError:
    """The error for an unknown name, with the closest names."""
    names = [each.name for each in plans()]
    if not names:
        return CommandError(f"No plan is named {name!r}. {NO_PLANS}")
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}."
    return CommandError(f"No plan is named {name!r}; {hint}")


def _chosen(names: Sequence[str]) -> list[Plan]:
    declared = {each.name: each for each in plans()}
    for name in names:
        if name not in declared:
            raise no_such_plan(name)
    return [declared[name] for name in dict.fromkeys(names or declared)]


def _reconcile(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    done, dry_run = {}, options["dry_run"]
    for each in _chosen(options["name"]):
        rows = each.queryset().using(using)
        with progress(command, each.name, quiet=options["json"], total=rows.count) as advance:
            done[each.name] = type(each).reconcile(using=using, dry_run=dry_run, progress=advance)
        if options["json"]:
            command.stdout.write(json.dumps({"plan": each.name, **asdict(done[each.name]), "dry_run": dry_run}))
    if not options["json"]:
        command.stdout.write("\n".join(_counts(done) if done else [NO_PLANS]))
        if done and dry_run:
            command.stdout.write(DRY_RUN)
    _refuse_failures(done)


def _counts(done: dict[str, Synced]) -> list[str]:
    words = ("planned", "moved", "changed", "unchanged", "cancelled")
    rows = [
        (name, *(str(getattr(synced, word)) for word in words), str(len(synced.failed)))
        for name, synced in done.items()
    ]
    return aligned(("plan", *words, "failed"), rows)


def _refuse_failures(done: dict[str, Synced]) -> None:
    failed = [f"{name} {pk}: {error}" for name, synced in done.items() for pk, error in synced.failed.items()]
    if not failed:
        return
    lines = failed[:SHOWN_FAILURES]
    if len(failed) > len(lines):
        lines.append(f"and {len(failed) - len(lines)} more")
    rows = "1 row" if len(failed) == 1 else f"{len(failed)} rows"
    raise CommandError(
        f"{rows} could not be planned, and their earlier schedules stay; correct them and run it again:\n  "
        + "\n  ".join(lines)
    )


class _Listed(NamedTuple):
    plan: str
    model: str | None
    event: str | None
    live: int
    next_due: datetime | None


def _list(command: BaseCommand, options: dict[str, Any], using: str) -> None:
    listed = _listed(options["name"], using)
    if options["json"]:
        for each in listed:
            next_due = each.next_due.isoformat() if each.next_due else None
            command.stdout.write(json.dumps({**each._asdict(), "next_due": next_due}))
        return
    rows = [
        (
            each.plan,
            each.model or "(not declared)",
            each.event or "",
            str(each.live),
            readable(each.next_due) if each.next_due else "",
        )
        for each in listed
    ]
    lines = aligned(("plan", "model", "event", "live", "next due, utc"), rows) if rows else [NO_PLANS]
    command.stdout.write("\n".join(lines))


def _listed(names: Sequence[str], using: str) -> list[_Listed]:
    found = _live(using)
    listed = [
        _Listed(each.name, each.model._meta.label, each.event, *found.pop(each.name, (0, None)))
        for each in _chosen(names)
    ]
    # Schedules of a removed plan still fire.
    gone = [] if names else [_Listed(name, None, None, *found[name]) for name in sorted(found)]
    return listed + gone


def _live(using: str) -> dict[str, tuple[int, datetime | None]]:
    """How many live schedules each plan has, and when the first of them is due."""
    rows = schedules.rows(using).filter(status__in=["scheduled", "paused"]).exclude(plan="")
    counted = rows.order_by().values_list("plan").annotate(live=Count("id"), next_due=Min("due_at"))
    return {name: (live, next_due) for name, live, next_due in counted}


def add_sweep_options(parser: CommandParser) -> None:
    parser.add_argument("name", nargs="?", help="only this one, as in 'shop.DueTasks'")
    parser.add_argument("--limit", type=positive, help="at most this many rows of each (the sweep's own limit)")
    parser.add_argument("--dry-run", action="store_true", help="only print how many")
    parser.add_argument("--json", action="store_true", help="print JSON, one sweep a line")
    parser.add_argument("--database", help="the alias whose tables to sweep (DUEBOX['DATABASE'])")


def sweep(command: BaseCommand, options: dict[str, Any]) -> None:
    """Run sweeps now: one by name, or all that run periodically. For cron and Lambda."""
    chosen = _chosen_sweeps(options["name"])
    if not chosen and not options["json"]:
        command.stdout.write("No periodic sweep is declared; `duebox sweep NAME` runs any other.")
    failures = []
    for position, each in enumerate(chosen):
        if error := _run(command, options, each):
            failures.append(error)
        if isinstance(error, DATABASE_ERRORS) and not _is_there(_alias(options)):
            skipped = ", ".join(other.name for other in chosen[position:])
            raise CommandError(f"The database does not answer; skipped until the next run: {skipped}.") from error
    if failures:
        raise failures[0]


def _chosen_sweeps(name: str | None) -> list[type[Sweep]]:
    known = by_name()
    if name is None:
        return [each for each in known.values() if each.every is not None]
    if name not in known:
        raise CommandError(f"No sweep is named {name!r}; there are: {', '.join(sorted(known)) or 'none'}.")
    return [known[name]]


def _run(command: BaseCommand, options: dict[str, Any], each: type[Sweep]) -> Exception | None:
    """Run and report one sweep. Its failure is raised at the end, after the others have run."""
    try:
        swept = each.run(using=_alias(options), limit=options["limit"], dry_run=options["dry_run"])
    except Exception as error:
        command.stderr.write(f"{each.name} could not be run: {type(error).__name__}: {error}")
        return error
    command.stdout.write(json.dumps(swept.as_dict()) if options["json"] else str(swept))
    return None


def _alias(options: dict[str, Any]) -> str:
    return str(options["database"] or conf().DATABASE)


def _is_there(using: str) -> bool:
    """Whether the database answers; if not, the other sweeps need not try."""
    try:
        connections[using].ensure_connection()
    except DATABASE_ERRORS:
        return False
    return connections[using].is_usable()
