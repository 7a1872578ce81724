"""`duebox audit list` and `duebox audit export`: entries by entity, actor, organization, action, request and time."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing.export import csv_lines, json_lines
from duebox.auditing.text import printable
from duebox.conf import conf
from duebox.entrypoints.preview import entity
from duebox.entrypoints.terminal import aligned, progress, readable
from duebox.entrypoints.trial import moment
from duebox.entrypoints.worker import positive
from duebox.models import AuditEntry
from duebox.models.audit import AuditQuerySet, name_of
from duebox.schedule import project_zone
from duebox.when import WhenError

FORMATS = {"csv": csv_lines, "jsonl": json_lines}
CHUNK = 2_000
BRIEF = 30
ASKED = {"actor": "by", "organization": "of", "action": "doing", "correlation_id": "correlated"}


def add_list_options(parser: CommandParser) -> None:
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="how many to list, newest first (50)")
    parser.add_argument("--json", action="store_true", help="print JSON, one entry a line")
    _add_filters(parser)


def add_export_options(parser: CommandParser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl or csv (jsonl)")
    parser.add_argument("--out", metavar="FILE", help="write to this file (standard output)")
    _add_filters(parser)


def show(command: BaseCommand, options: dict[str, Any]) -> None:
    """List entries of the audit log, newest first."""
    entries = list(_matching(options).order_by("-id")[: options["limit"] + 1])
    shown, more = entries[: options["limit"]], len(entries) > options["limit"]
    if options["json"]:
        for line in json_lines(shown):
            command.stdout.write(line, ending="")
        return
    head = ("id", "recorded, utc", "action", "about", "by", "organization", "changes")
    for line in aligned(head, [_cells(entry) for entry in shown]) if shown else ["No entries."]:
        command.stdout.write(line)
    if more:
        command.stdout.write(f"Only the newest {len(shown)}; --limit shows more.")


def export(command: BaseCommand, options: dict[str, Any]) -> None:
    """Write entries to a file or to standard output, oldest first."""
    lines = FORMATS[options["format"]](_matching(options).order_by("id").iterator(chunk_size=CHUNK))
    if options["out"] is None:
        for line in lines:
            command.stdout.write(line, ending="")
        return
    with _new_file(options["out"]) as file, progress(command, "exported") as tell:
        while chunk := list(islice(lines, CHUNK)):
            file.writelines(chunk)
            if tell:
                tell(len(chunk))


def _new_file(path: str) -> TextIO:
    try:
        return Path(path).open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); give another name.") from error


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--about", type=entity, metavar="TYPE:ID", help="about this entity, as in member:42")
    parser.add_argument("--actor", metavar="ID", help="done by the actor with this id, also in the name of another")
    parser.add_argument("--organization", metavar="ID", help="of this organization; '' for none")
    parser.add_argument("--action", help="of this action, as in member.removed")
    parser.add_argument("--correlation-id", metavar="ID", help="of this request or story")
    parser.add_argument("--since", metavar="MOMENT", help="from this date or ISO time on; local without an offset")
    parser.add_argument("--until", metavar="MOMENT", help="before this one")


def _matching(options: dict[str, Any]) -> AuditQuerySet:
    found = AuditEntry.objects.using(options["database"] or conf().DATABASE).all()
    found = found.between(instant(options, "since"), instant(options, "until"))
    if options["about"]:
        found = found.about(*options["about"])
    for option, word in ASKED.items():
        if options[option] is not None:
            found = getattr(found, word)(options[option])
    return found


def instant(options: dict[str, Any], name: str) -> datetime | None:
    """The moment that an option names."""
    try:
        return moment(options[name], project_zone(), f"--{name}") if options[name] else None
    except WhenError as error:
        raise CommandError(str(error)) from error


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    changes = ", ".join(f"{name}: {_brief(old)} -> {_brief(new)}" for name, (old, new) in entry.changes.items())
    about = f"{entry.entity_type}:{entry.entity_id}"
    actor, behind = name_of(entry.actor), name_of(entry.impersonator)
    who = f"{behind} as {actor}" if behind else actor
    told = (entry.action, about, who, entry.organization, changes)
    return str(entry.id), readable(entry.recorded_at), *map(printable, told)


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"
