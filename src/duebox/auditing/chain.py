"""The chain: each entry is hashed with the one before it, by a key that the database does not know.

Whoever can write to the tables but not read the key can break a chain, and cannot mend it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from duebox.auditing import keys
from duebox.store.audits import Entry, Head, Opened, Row

SEPARATOR, NOTHING = "\x1f", "\x1e"
UNSEALED = b""
"""Of a head that was just made."""


def hash_of(key: bytes, previous: bytes, text: bytes) -> bytes:
    return hmac.digest(key, previous + text, "sha256")


def seal_of(key: bytes, head: Head) -> bytes:
    parts = (head.organization, head.sequence, head.hash.hex(), head.pruned_sequence, head.pruned_hash.hex())
    return hmac.digest(key, SEPARATOR.join(map(str, parts)).encode(), "sha256")


def sealed(head: Head) -> Head:
    return head._replace(seal=seal_of(keys.current("head"), head))


def is_sealed(head: Head) -> bool:
    """Whether nobody but Duebox has changed a head."""
    if head.sequence == 0 and head.seal == UNSEALED:
        return True
    return any(hmac.compare_digest(seal_of(key, head), head.seal) for key in keys.every("head"))


def linked(entries: Sequence[Entry], opened: Sequence[Opened]) -> tuple[list[Row], list[Head]]:
    """The entries as links of their chains, and the heads with which these end then."""
    key = keys.current("chain")
    ends, rows = {each.head.organization: each.head for each in opened}, []
    for entry, place in zip(entries, opened, strict=True):
        end = ends[entry.organization]
        rows.append(row := _link(key, entry, place, end))
        ends[entry.organization] = end._replace(sequence=row.sequence, hash=row.hash)
    return rows, [sealed(end) for end in ends.values()]


def _link(key: bytes, entry: Entry, place: Opened, end: Head) -> Row:
    row = Row(
        id=place.id,
        sequence=end.sequence + 1,
        microseconds=place.microseconds,
        previous_hash=end.hash,
        hash=b"",
        **entry._replace(changes=place.changes, metadata=place.metadata)._asdict(),
    )
    return row._replace(hash=hash_of(key, end.hash, _text(row)))


def _text(row: Row) -> bytes:
    """As `audit_read.sql` puts it together from the table."""
    return SEPARATOR.join(NOTHING if value is None else str(value) for value in row[:-2]).encode()
