"""The audit log as rows: chains that only grow at one end, and go at the other by age."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import OperationalError
from psycopg.errors import ObjectNotInPrerequisiteState

from duebox.exceptions import NotReady
from duebox.store.statements import execute, number_array, run, text_array

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = {"id", "sequence"}
_HASHES = {"previous_hash", "hash", "seal"}


class Entry(NamedTuple):
    """What is to be recorded, before it has a place in a chain. Actor, impersonator and the last two are JSON."""

    organization: str
    action: str
    entity_type: str
    entity_id: str
    actor: str | None
    impersonator: str | None
    correlation_id: str
    ip: str
    user_agent: str
    changes: str
    metadata: str


class Head(NamedTuple):
    """Where a chain ends, and where it begins."""

    organization: str
    sequence: int
    hash: bytes
    pruned_sequence: int
    pruned_hash: bytes
    seal: bytes


class Opened(NamedTuple):
    """What the database says to an entry before it is written."""

    id: int
    microseconds: int
    changes: str
    metadata: str
    head: Head


class Row(NamedTuple):
    """An entry with its place, in the order in which `audit_read.sql` puts the columns that are hashed."""

    id: int
    organization: str
    sequence: int
    microseconds: int
    action: str
    entity_type: str
    entity_id: str
    actor: str | None
    impersonator: str | None
    correlation_id: str
    ip: str
    user_agent: str
    changes: str
    metadata: str
    previous_hash: bytes
    hash: bytes

    @property
    def recorded_at(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.microseconds)


class Stored(NamedTuple):
    """An entry as it is found: what was hashed, as one text, and where its chain begins, if it has a head."""

    organization: str
    sequence: int
    id: int
    previous_hash: bytes
    hash: bytes
    text: bytes
    pruned_sequence: int | None
    pruned_hash: bytes | None


class Last(NamedTuple):
    """The last entry that a chain really has."""

    id: int
    sequence: int
    hash: bytes


def open_chains(using: str, entries: Sequence[Entry]) -> list[Opened]:
    """Hold the heads that the entries need until the transaction ends."""
    params = {
        "heads": _in_order({entry.organization for entry in entries}),
        "organization": text_array(entry.organization for entry in entries),
        "changes": text_array(entry.changes for entry in entries),
        "metadata": text_array(entry.metadata for entry in entries),
    }
    with _lost_head_told():
        found = run("audit_open", using, params)
    return [Opened(row[0], row[1], row[2], row[3], Head(*row[4:])) for row in found]


def take(using: str, organizations: Collection[str]) -> None:
    """Hold the heads of these until the transaction ends, before there is an entry."""
    with _lost_head_told():
        run("audit_take", using, {"heads": _in_order(organizations)})


def take_free(using: str, organizations: Collection[str]) -> bool:
    """The same, if there is none that has to be waited for, or made."""
    return len(run("audit_take_free", using, {"heads": _in_order(organizations)})) == len(organizations)


def write(using: str, rows: Sequence[Row], heads: Sequence[Head]) -> None:
    """Store entries, and where their chains end now."""
    columns = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    columns["recorded_at"] = tuple(row.recorded_at.isoformat() for row in rows)
    del columns["microseconds"]
    for name in ("organization", "sequence", "hash", "seal"):
        columns[f"head_{name}"] = tuple(getattr(head, name) for head in heads)
    execute("audit_write", using, {name: _array(name, values) for name, values in columns.items()})


def read(using: str, after: Stored, *, only: bool, limit: int) -> list[Stored]:
    """The entries that come after one, in the order of their chains; `only` those of its own chain."""
    params = {"organization": after.organization, "sequence": after.sequence, "id": after.id}
    return [Stored(*row) for row in run("audit_read", using, {**params, "only": only, "limit": limit})]


def heads(using: str, *, only: str | None, after: str | None, limit: int) -> list[tuple[Head, Last | None]]:
    found = run("audit_heads", using, {"only": only, "after": after, "limit": limit})
    return [(Head(*row[:6]), None if row[6] is None else Last(*row[6:])) for row in found]


def starts(using: str, since: datetime, *, only: str | None) -> list[tuple[str, int | None]]:
    """For each organization the place of its last entry before a moment, if it had one then."""
    return [(row[0], row[1]) for row in run("audit_starts", using, {"since": since, "only": only})]


def stale(using: str, *, years: int) -> list[tuple[str, int, int]]:
    """Organizations with entries older than so many years: the name, how far it is pruned, how far it may be."""
    return [(row[0], row[1], row[2]) for row in run("audit_stale", using, {"years": years})]


def hold(using: str, organization: str) -> Head:
    """A head that nobody else moves until the transaction ends."""
    [row] = run("audit_hold", using, {"organization": organization})
    return Head(*row)


def prune(using: str, head: Head) -> int:
    """Remove the entries of a chain up to where its new head says that it begins; gives how many."""
    params = {**head._asdict(), "pruned_hash": head.pruned_hash.hex(), "seal": head.seal.hex()}
    return len(run("audit_prune", using, params))


def allow_truncate(using: str) -> None:
    """For databases that nobody keeps: this session may empty the tables."""
    run("audit_disposable", using, {})


def _in_order(organizations: Collection[str]) -> str:
    """In one order everywhere: two callers with heads in common do not deadlock."""
    return text_array(sorted(organizations))


@contextmanager
def _lost_head_told() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if isinstance(error.__cause__, ObjectNotInPrerequisiteState):
            raise NotReady(error.__cause__.diag.message_primary) from error
        raise


def _array(name: str, values: Sequence[Any]) -> str:
    name = name.removeprefix("head_")
    if name in _NUMBERS:
        return number_array(values)
    return text_array(value.hex() for value in values) if name in _HASHES else text_array(values)
