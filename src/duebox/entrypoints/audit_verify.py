"""`duebox audit verify`: is the audit log as it was written?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from duebox.auditing import receipts
from duebox.auditing import verify as look
from duebox.auditing.receipts import Receipts
from duebox.auditing.text import printable
from duebox.auditing.verdict import Verdict
from duebox.conf import conf
from duebox.entrypoints.audit_entries import instant
from duebox.entrypoints.terminal import progress

SHOWN = 20
ANOTHER_KEY = "Every entry is flawed: was the log written with another AUDIT_KEY or SECRET_KEY?"


def add_options(parser: CommandParser) -> None:
    parser.add_argument("--organization", metavar="ID", help="only this one; '' for entries that belong to none (all)")
    parser.add_argument(
        "--since", metavar="MOMENT", help="only from this date or ISO time on, trusting what was before"
    )
    parser.add_argument("--against", metavar="FILE", help="compare with what --json printed some other day")
    parser.add_argument("--json", action="store_true", help="print JSON, one organization a line")


def verify(command: BaseCommand, options: dict[str, Any]) -> None:
    """Find every entry that was edited, removed, inserted or reordered."""
    using = options["database"] or conf().DATABASE
    asked = {"organization": options["organization"], "since": instant(options, "since")}
    flawed, chains, entries = [], 0, 0
    with progress(command, "verified", quiet=options["json"]) as tell:
        for verdict in look(using, **asked, receipts=_receipts(options["against"]), progress=tell):
            chains, entries = chains + 1, entries + verdict.entries
            if verdict.flaws:
                flawed.append(verdict)
            if options["json"]:
                command.stdout.write(json.dumps(verdict.as_dict()))
    if flawed:
        raise CommandError("\n".join(_complaint(flawed, entries)))
    if not options["json"]:
        command.stdout.write(f"{_of(entries, 'entry', 'entries')} of {_of(chains, 'organization')}: as written.")


def _receipts(path: str | None) -> Receipts | None:
    if path is None:
        return None
    try:
        return receipts.read(Path(path).read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}).") from error


def _complaint(flawed: list[Verdict], entries: int) -> list[str]:
    flaws = sum(verdict.flaws for verdict in flawed)
    lines = [f"The audit log is not as it was written: {_of(flaws, 'flaw')} in {_of(len(flawed), 'organization')}."]
    lines += [
        f"  {printable(verdict.organization) or '(none)'}: {verdict.first}; {verdict.flaws} in all"
        for verdict in flawed[:SHOWN]
    ]
    if len(flawed) > SHOWN:
        lines.append(f"  and {len(flawed) - SHOWN} more organizations; --json lists all")
    return [*lines, ANOTHER_KEY] if flaws >= entries > 1 else lines


def _of(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
