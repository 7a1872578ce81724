"""`duebox plan`: bring schedules in line with the rows of their models, or with the zone database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Min

from duebox.conf import conf
from duebox.entrypoints.terminal import DRY_RUN, aligned, progress, readable
from duebox.entrypoints.tzdata import follow_tzdata
from duebox.plans import Plan, plans
from duebox.store import schedules
from duebox.syncing import Synced

SHOWN_FAILURES = 10
NO_PLANS = "No plans are declared; subclass duebox.Plan in plans.py of an app."


def add_plan_options(parser: CommandParser) -> None:
    parser.add_argument("name", nargs="*", metavar="NAME", help="only these plans (all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="only list the plans and what they have")
    how.add_argument("--tzdata", action="store_true", help="plan anew what the zone database moves")
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    parser.add_argument("--json", action="store_true", help="print JSON, one plan a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


def plan(command: BaseCommand, options: dict[str, Any]) -> None:
    """Bring schedules in line with the rows of their models. With --tzdata, with the zone database."""
    using = options["database"] or conf().DATABASE
    if options["tzdata"]:
        follow_tzdata(command, options, using)
    elif options["list"]:
        _list(command, options, using)
    else:
        _reconcile(command, options, using)


def no_such_plan(name: str) -> CommandError:
    """The refusal of a name, with the names that are near."""
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
        with progress(command, each.name, quiet=options["json"]) as tell:
            done[each.name] = type(each).reconcile(using=using, dry_run=dry_run, progress=tell)
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
        f"{rows} could not be planned, and what was planned before stays; repair and run it again:\n  "
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
    # Schedules of a plan that the code has no more still fire.
    gone = [] if names else [_Listed(name, None, None, *found[name]) for name in sorted(found)]
    return listed + gone


def _live(using: str) -> dict[str, tuple[int, datetime | None]]:
    """How many live schedules each plan has, and when the first of them is due."""
    rows = schedules.rows(using).filter(status__in=["scheduled", "paused"]).exclude(plan="")
    counted = rows.order_by().values_list("plan").annotate(live=Count("id"), next_due=Min("due_at"))
    return {name: (live, next_due) for name, live, next_due in counted}
