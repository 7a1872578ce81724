"""`duebox audit`: list, export, verify, seal and prune the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.audit_log import prune as let_go
from duebox.audit_log.archive import csv_lines, json_lines
from duebox.audit_log.seal import accept_head, seal_all
from duebox.audit_log.verify import Receipt, Verdict, read_receipts
from duebox.audit_log.verify import verify as look
from duebox.cli.output import DRY_RUN, Group, Verb, aligned, operator_actor, progress, readable
from duebox.cli.preview import entity, moment
from duebox.cli.worker import positive
from duebox.conf import conf
from duebox.events.identities import printable
from duebox.exceptions import AuditHeadChanged, InvalidAudit
from duebox.models import AuditEntry
from duebox.models.audit import AuditQuerySet, name_of
from duebox.schedules.schedule import project_zone
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
    entries = list(matching(options).order_by("-id")[: options["limit"] + 1])
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
    lines = FORMATS[options["format"]](matching(options).order_by("id").iterator(chunk_size=CHUNK))
    if options["out"] is None:
        for line in lines:
            command.stdout.write(line, ending="")
        return
    with _new_file(options["out"]) as file, progress(command, "exported") as advance:
        while chunk := list(islice(lines, CHUNK)):
            file.writelines(chunk)
            if advance:
                advance(len(chunk))


def _new_file(path: str) -> TextIO:
    try:
        return Path(path).open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); give another name.") from error


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--about", type=entity, metavar="TYPE:ID", help="about this entity, as in member:42")
    parser.add_argument("--actor", metavar="ID", help="by the actor with this id, also while impersonating another")
    parser.add_argument("--organization", metavar="ID", help="of this organization; '' for none")
    parser.add_argument("--action", help="of this action, as in member.removed")
    parser.add_argument("--correlation-id", metavar="ID", help="of this correlation id")
    parser.add_argument("--since", metavar="MOMENT", help="from this date or ISO time on; local without an offset")
    parser.add_argument("--until", metavar="MOMENT", help="before this one")


def matching(options: dict[str, Any]) -> AuditQuerySet:
    found = AuditEntry.objects.using(options["database"] or conf().DATABASE).select_related("seal")
    found = found.between(instant(options, "since"), instant(options, "until"))
    if options["about"]:
        found = found.about(*options["about"])
    for option, word in ASKED.items():
        if options[option] is not None:
            found = getattr(found, word)(options[option])
    return found


def instant(options: dict[str, Any], name: str) -> datetime | None:
    """Parse the moment of an option."""
    try:
        return moment(options[name], project_zone(), f"--{name}") if options[name] else None
    except WhenError as error:
        raise CommandError(str(error)) from error


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    changes = ", ".join(f"{name}: {_brief(old)} -> {_brief(new)}" for name, (old, new) in entry.changes.items())
    about = f"{entry.entity_type}:{entry.entity_id}"
    actor, behind = name_of(entry.actor), name_of(entry.impersonator)
    who = f"{behind} as {actor}" if behind else actor
    shown = (entry.action, about, who, entry.organization, changes)
    return str(entry.id), readable(entry.recorded_at), *map(printable, shown)


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


ANOTHER_KEY = "Every entry is flawed: was the log written with another AUDIT_KEY or SECRET_KEY?"


def verify_options(parser: CommandParser) -> None:
    parser.add_argument("--organization", metavar="ID", help="only the entries of this one; '' for those of none (all)")
    parser.add_argument(
        "--since", metavar="MOMENT", help="only from this date or ISO time on, without verifying earlier entries"
    )
    parser.add_argument("--against", metavar="FILE", help="compare with what --json printed, or with AUDIT_HEAD_FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def verify(command: BaseCommand, options: dict[str, Any]) -> None:
    """Find every entry that was edited, removed, inserted or reordered."""
    using = options["database"] or conf().DATABASE
    asked = {"organization": options["organization"], "since": instant(options, "since")}
    with progress(command, "verified", quiet=options["json"]) as advance:
        verdict = look(using, **asked, receipts=_receipts(options["against"]), progress=advance)
    if options["json"]:
        command.stdout.write(json.dumps(verdict.as_dict()))
    if verdict.flaws:
        raise CommandError("\n".join(_complaint(verdict)))
    if not options["json"]:
        waiting = f" {_of(verdict.unsealed, 'entry', 'entries')} not sealed yet." if verdict.unsealed else ""
        command.stdout.write(f"{_of(verdict.entries, 'entry', 'entries')}: as written.{waiting}")


def add_seal_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--accept-head", action="store_true", help="continue although the head of the chain was changed or removed"
    )
    parser.add_argument("--reason", default="", help="why, with --accept-head; it is recorded")
    parser.add_argument("--json", action="store_true", help="print JSON")


def seal(command: BaseCommand, options: dict[str, Any]) -> None:
    """Seal committed entries. Workers do it once a second; use this if no worker runs."""
    using = options["database"] or conf().DATABASE
    if options["reason"] and not options["accept_head"]:
        raise CommandError("--reason needs --accept-head; pass both, or leave it out.")
    try:
        if options["accept_head"]:
            accept_head(using, actor=operator_actor(), reason=options["reason"])
        count, _ = seal_all(using)
    except AuditHeadChanged as error:
        raise CommandError(str(error)) from error
    command.stdout.write(
        json.dumps({"sealed": count}) if options["json"] else f"Sealed {_of(count, 'entry', 'entries')}."
    )


def _receipts(path: str | None) -> list[Receipt]:
    if path is None:
        return []
    try:
        return read_receipts(Path(path).read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}).") from error
    except InvalidAudit as error:
        raise CommandError(str(error)) from error


def _complaint(verdict: Verdict) -> list[str]:
    lines = [f"The audit log is not as it was written: {_of(verdict.flaws, 'flaw')}.", f"  {verdict.first}"]
    return [*lines, ANOTHER_KEY] if verdict.flaws >= verdict.entries > 1 else lines


def _of(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def prune_options(parser: CommandParser) -> None:
    parser.add_argument("--years", type=positive, metavar="N", help="keep N years (DUEBOX['AUDIT_YEARS'])")
    parser.add_argument("--dry-run", action="store_true", help="only print how many")
    parser.add_argument("--json", action="store_true", help="print JSON")


def prune(command: BaseCommand, options: dict[str, Any]) -> None:
    """Remove entries that are older than AUDIT_YEARS. They are verified first; if there is a flaw, nothing is
    removed."""
    using, dry_run = options["database"] or conf().DATABASE, options["dry_run"]
    years = options["years"] or conf().AUDIT_YEARS
    old = "1 year" if years == 1 else f"{years} years"
    done = let_go(using, years=years, dry_run=dry_run, actor=operator_actor())
    entries = "entry" if done.entries == 1 else "entries"
    if options["json"]:
        flaw = str(done.flaw) if done.flaw else None
        command.stdout.write(json.dumps({"entries": done.entries, "flaw": flaw, "dry_run": dry_run}))
    elif done.entries:
        command.stdout.write(f"{done.entries:,} {entries} older than {old}.")
        command.stdout.write(DRY_RUN if dry_run else "Removed.")
    elif not done.flaw:
        command.stdout.write(f"Nothing is older than {old}.")
    if done.flaw:
        raise CommandError(f"Not pruned, because verification failed; run `duebox audit verify`: {done.flaw}")


def _with_database(add_options: Callable[[CommandParser], None]) -> Callable[[CommandParser], None]:
    def add(parser: CommandParser) -> None:
        add_options(parser)
        parser.add_argument("--database", metavar="ALIAS", help="the alias whose tables to use (DUEBOX['DATABASE'])")

    return add


AUDIT = Group(
    "Audit log",
    "List, export, verify, seal or prune the audit log.",
    {
        "list": Verb(show, _with_database(add_list_options)),
        "export": Verb(export, _with_database(add_export_options)),
        "verify": Verb(verify, _with_database(verify_options)),
        "seal": Verb(seal, _with_database(add_seal_options)),
        "prune": Verb(prune, _with_database(prune_options)),
    },
)
