"""`duebox import celery-beat`: the periodic tasks of django-celery-beat as schedules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from duebox import clock
from duebox.cli.output import DRY_RUN, Group, Options, Verb, aligned, readable, with_weekday
from duebox.conf import conf
from duebox.events.identities import printable
from duebox.exceptions import DueboxError
from duebox.integrations import celery_beat_import as beat
from duebox.models import Schedule
from duebox.schedules.planner import cancel_all
from duebox.schedules.schedule import schedule
from duebox.store import schedules
from duebox.store.run_sql import migrated
from duebox.when import Moment
from duebox.when.describe import describe_rule
from duebox.when.times import read

YEAR = timedelta(days=365)
LIVE = ("scheduled", "paused")
SHOWN = 3
"""How many runs of one clock change are printed; JSON has all."""


@dataclass(slots=True)
class Line:
    """What became of a row."""

    name: str
    task: str
    outcome: str
    reason: str = ""
    stored: Schedule | None = None
    rule: str = ""
    notes: list[str] = field(default_factory=list)
    differences: list[beat.Difference] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "task": self.task, "outcome": self.outcome, "reason": self.reason}
        if self.stored:
            due = self.stored.due_at
            found |= {
                "key": self.stored.key, "type": self.stored.type, "data": self.stored.data, "rule": self.rule,
                "zone": self.stored.zone, "next": due.isoformat() if due else None,
            }  # fmt: skip
        return found | {"notes": self.notes, "differences": [_difference(each) for each in self.differences]}


def celery_beat(command: BaseCommand, options: Options) -> None:
    """Import the periodic tasks of django-celery-beat as schedules. Exit with 1 if a row cannot be imported."""
    if not beat.installed():
        raise CommandError("django_celery_beat is not in INSTALLED_APPS; add it until its rows are imported.")
    using, now = options["database"] or conf().DATABASE, clock.now()
    events = dict(options["event"] or [])
    found = beat.rows()
    if unknown := sorted(events.keys() - {row.task for row in found}):
        raise CommandError(f"No row of django-celery-beat has the task {unknown[0]!r}; check --event.")
    with ExitStack() as stack, migrated(using):
        for alias in {using, *(row._state.db for row in found)}:
            stack.enter_context(transaction.atomic(using=alias))
        lines = [_import(row, events, options, using, now) for row in found]
        lines += _gone({f"{beat.KEY_PREFIX}{row.name}" for row in found}, using)
        if options["dry_run"]:
            for alias in {using, *(row._state.db for row in found)}:
                transaction.set_rollback(True, using=alias)
    _print(command, lines, options)
    if refused := sum(line.outcome == "refused" for line in lines):
        raise CommandError(f"{refused} {'row was' if refused == 1 else 'rows were'} refused.")


def _import(row: Any, events: Mapping[str, str], options: Options, using: str, now: datetime) -> Line:
    before = schedules.rows(using).filter(key=f"{beat.KEY_PREFIX}{row.name}").first()
    if reason := beat.why_skipped(row, now) or _why_left_alone(row, before):
        if before and before.status in LIVE:
            reason += f"; its schedule stays: duebox schedules cancel '{before.key}'"
        return Line(row.name, row.task, "skipped", reason)
    try:
        with transaction.atomic(using=using):
            new = beat.convert(row, events, options["default_event"])
            stored = _store(new, before, using)
    except DueboxError as error:
        return Line(row.name, row.task, "refused", str(error).rstrip("."))
    if options["disable"]:
        row.enabled = False
        row.save()  # not update(): beat looks at what save() leaves behind
    differences = [*beat.differences(row, new, now, now + YEAR)]
    return Line(
        row.name, row.task, _outcome(before, stored), "", stored, describe_rule(new.table.rule), new.notes, differences
    )


def _why_left_alone(row: Any, before: Schedule | None) -> str:
    if before is None:
        return ""
    if before.opt_out:
        return f"cancelled in Duebox; to have it again: duebox schedules restore '{before.key}'"
    if row.one_off and before.fired:
        return "a one-off task that Duebox has fired"
    return ""


def _store(new: beat.Imported, before: Schedule | None, using: str) -> Schedule:
    if before and before.status in LIVE and before.type != new.type:
        cancel_all(using, schedules.locked(schedules.rows(using).filter(pk=before.pk)), why="imported as another event")
    rule = new.table.rule
    when: dict[str, Any] = {"at": rule.at} if isinstance(rule, Moment) else {"repeat": new.table}
    return schedule(new.type, new.data, key=new.key, expires=new.expires, using=using, **when)


def _outcome(before: Schedule | None, after: Schedule) -> str:
    if before is None:
        return "created"
    names = ("intent", "type", "data", "metadata", "status")
    return "unchanged" if all(getattr(before, name) == getattr(after, name) for name in names) else "changed"


def _gone(keys: set[str], using: str) -> list[Line]:
    """Schedules of an earlier import whose rows are deleted or have another name."""
    rows = schedules.rows(using).filter(key__startswith=beat.KEY_PREFIX, status__in=LIVE).exclude(key__in=keys)
    return [
        Line(
            row.key.removeprefix(beat.KEY_PREFIX), "", "skipped",
            f"no longer in django-celery-beat; to stop it: duebox schedules cancel '{row.key}'",
        )
        for row in rows.order_by("key")
    ]  # fmt: skip


def _print(command: BaseCommand, lines: list[Line], options: Options) -> None:
    if options["json"]:
        for line in lines:
            command.stdout.write(json.dumps({**line.as_dict(), "dry_run": options["dry_run"]}))
        return
    if not lines:
        command.stdout.write("No rows in django-celery-beat.")
        return
    head = ("outcome", "row", "event", "rule", "next, local", "zone")
    for text in aligned(head, [_cells(line) for line in lines]):
        command.stdout.write(text)
    for title, texts in (
        ("Not imported:", [f"{line.name}: {line.reason}." for line in lines if line.reason]),
        ("Notes:", [f"{line.name}: {note}." for line in lines for note in line.notes]),
        ("Different when clocks change, within a year:", [*_told(lines)]),
    ):
        if texts:
            command.stdout.write("\n".join(["", title, *(f"  {printable(text)}" for text in texts)]))
    counts = Counter(line.outcome for line in lines)
    command.stdout.write("\n" + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + ".")
    if options["dry_run"]:
        command.stdout.write(DRY_RUN)


def _cells(line: Line) -> tuple[str, ...]:
    row = line.stored
    if row is None:
        return line.outcome, printable(line.name), "", "", "", ""
    local = with_weekday(read(row.local_time, "local_time")) if row.local_time else ""
    return line.outcome, printable(line.name), row.type, printable(line.rule), local, row.zone


def _told(lines: list[Line]) -> Iterator[str]:
    for line in lines:
        for each in line.differences:
            which = "forward" if each.forward else "back"
            only = {"Celery": each.celery, "Duebox": each.duebox}
            texts = [f"only {name} runs it {_runs(runs, each.zone)}" for name, runs in only.items() if runs]
            yield f"{line.name}, clocks go {which} at {readable(each.change)} UTC: {'; '.join(texts)}."


def _runs(instants: tuple[datetime, ...], zone: str) -> str:
    more = f" and {len(instants) - SHOWN} more times" if len(instants) > SHOWN else ""
    return ", ".join(beat.shown(each, zone) for each in instants[:SHOWN]) + more


def _difference(each: beat.Difference) -> dict[str, Any]:
    return {
        "change": each.change.isoformat(), "zone": each.zone, "clocks": "forward" if each.forward else "back",
        "celery": [one.isoformat() for one in each.celery], "duebox": [one.isoformat() for one in each.duebox],
    }  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    task, equals, type = text.partition("=")
    if not (task and equals and type):
        raise ValueError(text)
    return task, type


_pair.__name__ = "TASK=TYPE pair"  # argparse says it: invalid TASK=TYPE pair value


def _add_celery_beat_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--event", action="append", type=_pair, metavar="TASK=TYPE",
        help="the event type that a task becomes, as in shop.tasks.report=report.requested; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--default-event", metavar="TYPE", help="for all other tasks; its fields are task, args and kwargs"
    )
    parser.add_argument(
        "--disable", action="store_true", help="disable the imported rows, so that beat stops running them"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="print JSON, one row a line")
    parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")


IMPORT = Group(
    "Import",
    "Import what other schedulers have stored.",
    {"celery-beat": Verb(celery_beat, _add_celery_beat_options)},
)
