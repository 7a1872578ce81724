"""Export audit entries, and delete the oldest audit entries after the retention period; the rest still starts at a
known hash. Test runs may truncate the tables.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from duebox.audit_log import chain
from duebox.audit_log.record import own_entry, write
from duebox.audit_log.seal import PRUNED, check_head, seal_all
from duebox.audit_log.verify import BATCH, Flaw, verify_links
from duebox.conf import conf
from duebox.exceptions import AuditHeadChanged
from duebox.store import audit
from duebox.store.audit import allow_truncate

if TYPE_CHECKING:
    from duebox.models import AuditEntry

COLUMNS = (
    "id", "organization", "recorded_at", "action", "entity_type", "entity_id", "actor", "impersonator",
    "correlation_id", "ip", "user_agent", "changes", "metadata", "writer", "writer_number",
)  # fmt: skip
SEAL = ("sequence", "entry_hash", "hash")
"""Of the link that seals an entry; empty while it has none."""
# A spreadsheet takes a cell that begins like this for a formula, and runs it. It may split at a semicolon, a bar or the
# end of a line, and not at a comma, whatever the quotes say.
_FORMULA = re.compile(r"""(^|[;|\t\r\n])(["\s]*)([=+\-@\t\r])""")
# What would steer a terminal: JSON lets control characters from U+007F on stand as they are.
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def as_dict(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON can carry it."""
    seal = getattr(entry, "seal", None)
    found = {name: getattr(entry, name) for name in COLUMNS} | {name: getattr(seal, name, None) for name in SEAL}
    hashes = {name: bytes(found[name]).hex() for name in SEAL[1:] if seal}
    return found | hashes | {"recorded_at": entry.recorded_at.isoformat()}


def json_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    for entry in entries:
        yield _json(as_dict(entry)) + "\n"


def csv_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    """With a head line. Actor, impersonator, changes and metadata are JSON in their cells."""
    yield _line([*COLUMNS, *SEAL])
    for entry in entries:
        yield _line([_cell(value) for value in as_dict(entry).values()])


def _json(value: object) -> str:
    return _STEERING.sub(lambda found: _escaped(found[0]), json.dumps(value, ensure_ascii=False))


def _cell(value: object) -> str:
    if isinstance(value, dict):  # a semicolon of JSON is inside of a text, where an escape means the same
        return _FORMULA.sub(lambda found: found[1] + found[2] + _escaped(found[3]), _json(value))
    return _FORMULA.sub(r"\1\2'\3", "" if value is None else str(value))


def _escaped(sign: str) -> str:
    return f"\\u{ord(sign):04x}"


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_ALL).writerow(cells)
    return line.getvalue()


class Pruned(NamedTuple):
    """How many entries were removed. If there is a flaw, the others are not removed."""

    entries: int
    flaw: Flaw | None = None


def prune(using: str, *, years: int | None = None, dry_run: bool = False, actor: object = None) -> Pruned:
    """Remove entries that are older than `years`, by default AUDIT_YEARS.

    They are sealed and verified first. The removal is recorded as an entry too, by `actor` or the current actor.
    """
    years = years or conf().AUDIT_YEARS
    try:
        if not dry_run:
            seal_all(using)
        head, end = audit.head(using), audit.stale(using, years=years)
        if head is None or end <= head.pruned_sequence:
            return Pruned(0)
        return Pruned(end - head.pruned_sequence) if dry_run else _prune_batches(using, end, years, actor)
    except AuditHeadChanged as error:
        return Pruned(0, Flaw(None, None, str(error)))


def _prune_batches(using: str, end: int, years: int, actor: object) -> Pruned:
    """In batches with a transaction each, so that sealing waits for one of them at most. All of it is verified before
    the first."""
    if flaw := _flaw(using, end):
        return Pruned(0, flaw)
    removed = 0
    while True:
        with transaction.atomic(using=using):
            head = audit.hold_head(using, wait=True)
            if head is None or head.pruned_sequence >= end:
                return Pruned(removed)
            check_head(using, head)
            links = audit.read(using, after=head.pruned_sequence, until=end, organization=None, limit=BATCH)
            if flaw := verify_links(links, head) if links else Flaw(head.pruned_sequence + 1, None, "is missing"):
                return Pruned(removed, flaw)
            last = links[-1]
            begun = chain.signed(head._replace(pruned_sequence=last.sequence, pruned_hash=last.hash))
            count = audit.prune(using, begun)
            said = {"entries": count, "through": last.sequence, "hash": last.hash.hex(), "years": years}
            write([own_entry(PRUNED, ("audit", "entries"), said, actor)], using)
        removed += count


def _flaw(using: str, end: int) -> Flaw | None:
    """The first flaw of the links to remove."""
    head = audit.head(using)
    while head and head.pruned_sequence < end:
        links = audit.read(using, after=head.pruned_sequence, until=end, organization=None, limit=BATCH)
        if not links:
            return Flaw(head.pruned_sequence + 1, None, f"and all up to {end} are missing")
        if flaw := verify_links(links, head):
            return flaw
        head = head._replace(pruned_sequence=links[-1].sequence, pruned_hash=links[-1].hash)
    return None


def _connected(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    # To create the test database Django connects under a name that is no alias.
    if _is_test_run() and connection.vendor == "postgresql" and connection.alias in connections:
        allow_truncate(connection.alias)


def _is_test_run() -> bool:
    """Whether Django's test environment is set up. What it saved then, to put it back at the end, is the one trace that
    nothing else leaves: an outbox of mails is made by a backend too, and an allowed host may be called testserver."""
    utils = sys.modules.get("django.test.utils")  # loaded in every test run
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


connection_created.connect(_connected, dispatch_uid="duebox.audit_log.archive")
