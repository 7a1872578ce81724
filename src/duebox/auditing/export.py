"""Export: entries as CSV or as lines of JSON, one by one, whatever their number."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duebox.models import AuditEntry

COLUMNS = (
    "id", "organization", "sequence", "recorded_at", "action", "entity_type", "entity_id", "actor", "impersonator",
    "correlation_id", "ip", "user_agent", "changes", "metadata", "previous_hash", "hash",
)  # fmt: skip
# A spreadsheet takes a cell that begins like this for a formula, and runs it. It may split at a semicolon, a bar or the
# end of a line, and not at a comma, whatever the quotes say.
_FORMULA = re.compile(r"""(^|[;|\t\r\n])(["\s]*)([=+\-@\t\r])""")
# What would steer a terminal: JSON lets control characters from U+007F on stand as they are.
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def as_dict(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON can carry it."""
    found = {name: getattr(entry, name) for name in COLUMNS}
    hashes = {name: bytes(found[name]).hex() for name in ("previous_hash", "hash")}
    return found | hashes | {"recorded_at": entry.recorded_at.isoformat()}


def json_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    for entry in entries:
        yield _json(as_dict(entry)) + "\n"


def csv_lines(entries: Iterable[AuditEntry]) -> Iterator[str]:
    """With a head line. Actor, impersonator, changes and metadata are JSON in their cells."""
    yield _line(COLUMNS)
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
