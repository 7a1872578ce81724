"""Export: entries as CSV or as lines of JSON, one by one, whatever their number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duebox.models import AuditEntry

COLUMNS = (
    "id", "organization", "sequence", "recorded_at", "action", "entity_type", "entity_id", "actor", "impersonator",
    "correlation_id", "ip", "user_agent", "changes", "metadata", "previous_hash", "hash",
)  # fmt: skip
# A spreadsheet takes what begins like this for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_dict(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON can carry it."""
    found = {name: getattr(entry, name) for name in COLUMNS}
    hashes = {name: bytes(found[name]).hex() for name in ("previous_hash", "hash")}
    return found | hashes | {"recorded_at": entry.recorded_at.isoformat()}


def json_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    for entry in entries:
        yield json.dumps(as_dict(entry), ensure_ascii=False) + "\n"


def csv_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    """With a head line. Changes and metadata are JSON in their cells."""
    yield _line(COLUMNS)
    for entry in entries:
        yield _line([_cell(value) for value in as_dict(entry).values()])


def _cell(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
