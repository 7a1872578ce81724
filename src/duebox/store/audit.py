"""The audit log as rows: entries, the chain of their seals, its head, and the writers that number entries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from duebox.store.run_sql import execute, number_array, run, text_array

MOST_FORGOTTEN = 1_000
MOST_BYTES = 2_000_000
"""The maximum size of changes and metadata that are read at a time, as they are stored: large ones are compressed."""


class Entry(NamedTuple):
    """An entry to record. Actor, impersonator and the last two fields are JSON."""

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
    """The end and the beginning of the chain."""

    sequence: int
    hash: bytes
    pruned_sequence: int
    pruned_hash: bytes
    sealed_at: datetime | None
    signature: bytes


class Unsealed(NamedTuple):
    """An entry to seal, with the state of its writer; without an entry if all those of a writer are gone."""

    writer: int
    sealed: int
    """The writer's entries are sealed up to this number."""
    number: int
    """The last number that the writer has used."""
    writer_number: int | None
    id: int | None
    text: bytes | None
    is_cut: bool
    """Whether there are more than were read."""


class Seal(NamedTuple):
    """A link of the chain."""

    sequence: int
    entry_id: int
    entry_hash: bytes
    hash: bytes


class Link(NamedTuple):
    """A stored link, with the hashed values of its entry if they were requested."""

    sequence: int
    entry_id: int
    entry_hash: bytes
    hash: bytes
    has_entry: bool
    text: bytes | None
    erasure: bytes | None
    """If the values of the entry were erased: a hash of the rest."""


class Waiting(NamedTuple):
    """A writer with entries that are not sealed yet."""

    writer: int
    sealed: int
    number: int
    found: int


RETURNED = (
    "id", "recorded_at", "organization", "action", "entity_type", "entity_id", "actor", "impersonator",
    "correlation_id", "ip", "user_agent", "changes", "metadata", "writer", "writer_number",
)  # fmt: skip


def write(using: str, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Store entries. Returns them as they are stored."""
    columns = dict(zip(Entry._fields, zip(*entries, strict=True), strict=True))
    params: dict[str, Any] = {name: text_array(values) for name, values in columns.items()}
    rows = run("audit_write", using, {**params, "now": None})
    return [dict(zip(RETURNED, row, strict=True)) for row in rows]


def head(using: str) -> Head | None:
    return _head(run("audit_head", using, {}))


def hold_head(using: str, *, wait: bool = False) -> Head | None:
    """Lock the head until the transaction ends. None if there is none, or if another transaction has locked it."""
    return _head(run("audit_head_wait" if wait else "audit_head_lock", using, {}))


def make_head(using: str) -> None:
    execute("audit_head_create", using, {})


def write_head(using: str, head: Head) -> None:
    hashes = {name: getattr(head, name).hex() for name in ("hash", "pruned_hash", "signature")}
    execute("audit_head_write", using, {**head._asdict(), **hashes})


def last_seal(using: str) -> tuple[int, bytes] | None:
    """The place and the hash of the last link."""
    for sequence, hash in run("audit_last_seal", using, {}):
        return sequence, bytes(hash)
    return None


def is_unsealed(using: str) -> bool:
    [(found,)] = run("audit_is_unsealed", using, {})
    return bool(found)


def unpack(using: str, limit: int) -> None:
    """Store the entries of up to `limit` batches in rows of their own."""
    execute("audit_unpack", using, {"limit": limit})


def unsealed(using: str, limit: int) -> list[Unsealed]:
    """The next entries to seal: up to `limit`, fewer if they are large. Entries in batches are not among them."""
    return [Unsealed(*row) for row in run("audit_unsealed", using, {"limit": limit, "bytes": MOST_BYTES})]


def seal(using: str, seals: Sequence[Seal], sealed: dict[int, int]) -> None:
    """Store links, and up to which number the entries of each writer are sealed now."""
    params = {
        "sequence": number_array(each.sequence for each in seals),
        "entry_id": number_array(each.entry_id for each in seals),
        "entry_hash": text_array(each.entry_hash.hex() for each in seals),
        "hash": text_array(each.hash.hex() for each in seals),
        "writer": number_array(sealed),
        "number": number_array(sealed.values()),
    }
    execute("audit_seal", using, params)


def forget_writers(using: str) -> bool:
    """Remove writers whose sessions have ended and whose entries are all sealed; whether there may be more."""
    return len(run("audit_forget_writers", using, {"limit": MOST_FORGOTTEN})) == MOST_FORGOTTEN


def read(using: str, *, after: int, until: int, organization: str | None, limit: int) -> list[Link]:
    """The next links of the chain: up to `limit`, fewer if their entries are large."""
    params = {"after": after, "until": until, "only": organization, "limit": limit, "bytes": MOST_BYTES}
    return [Link(*row) for row in run("audit_read", using, params)]


def start(using: str, since: datetime) -> int:
    """The place of the first link whose entry was recorded at this moment or later, or that after the last link."""
    [(sequence,)] = run("audit_start", using, {"since": since})
    return int(sequence)


def beyond(using: str, limit: int) -> list[tuple[int, int]]:
    """Links after the head: their places and the ids of their entries."""
    return [(row[0], row[1]) for row in run("audit_beyond", using, {"limit": limit})]


def strays(using: str) -> tuple[int, int | None]:
    """How many entries have no link although no writer has left them to be sealed, and the id of the first."""
    [(count, first)] = run("audit_strays", using, {})
    return count, first


def waiting(using: str) -> list[Waiting]:
    return [Waiting(*row) for row in run("audit_waiting", using, {})]


def last_metadata(using: str, action: str) -> dict[str, Any] | None:
    """The metadata of the last entry about the log itself with this action."""
    for (metadata,) in run("audit_last_metadata", using, {"action": action}):
        found: dict[str, Any] = json.loads(metadata)
        return found
    return None


def stale(using: str, *, years: int) -> int:
    """The place up to which all entries are older than `years`."""
    [(sequence,)] = run("audit_stale", using, {"years": years})
    return int(sequence)


def erase(using: str, ids: Sequence[int]) -> None:
    """Replace the values of entries. Only inside of `store.erasure.erasing`."""
    execute("audit_erase", using, {"id": number_array(ids)})


def note_erasures(using: str, hashes: dict[int, bytes]) -> None:
    """Store the hashes of what is left of entries."""
    params = {"id": number_array(hashes), "hash": text_array(each.hex() for each in hashes.values()), "now": None}
    execute("audit_erasure", using, params)


def prune(using: str, head: Head) -> int:
    """Remove the entries before the beginning of the chain. Returns how many."""
    write_head(using, head)
    execute("audit_prune", using, {"sequence": head.pruned_sequence})
    return len(run("audit_prune_seals", using, {"sequence": head.pruned_sequence}))


def allow_truncate(using: str) -> None:
    """Let this session truncate the tables, for test databases."""
    run("audit_disposable", using, {})


def _head(rows: Iterable[tuple[Any, ...]]) -> Head | None:
    for sequence, hash, pruned_sequence, pruned_hash, sealed_at, signature in rows:
        return Head(sequence, bytes(hash), pruned_sequence, bytes(pruned_hash), sealed_at, bytes(signature))
    return None
