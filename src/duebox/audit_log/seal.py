"""Seal: give committed entries their places in the chain, sign its head, and send heads to places outside of the
database.

A transaction that writes an entry takes no lock that another one waits for. Workers look for new entries once a second,
and one of them at a time seals. Each session of the database numbers its entries without gaps, so an entry that was
removed before it was sealed is missed, and that is recorded in the chain.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from django.db import transaction

from duebox.audit_log import chain
from duebox.audit_log.record import own_entry, write
from duebox.conf import conf
from duebox.contracts.enforce import Own
from duebox.events.emit import NewEvent, emit_many
from duebox.events.subscribers import receivers_of
from duebox.exceptions import AuditHeadChanged
from duebox.store import audit, run_sql
from duebox.store.audit import Entry, Head, Unsealed

logger = logging.getLogger("duebox.audit")

BATCH = 5_000
BATCHES = 5
"""How many batches are unpacked for one seal. Triggers store the entries of a large statement as batches of up to 1,000
entries each, so these are at most `BATCH` entries."""
MISSING = "audit.entries_missing"
ACCEPTED = "audit.head_accepted"
PRUNED = "audit.pruned"
EVENT = Own("duebox.audit.sealed")
OUTSIDE_SECONDS = 60.0
_REPAIR = (
    "nothing is sealed until it is accepted: run `manage.py duebox audit verify`, "
    "then `manage.py duebox audit seal --accept-head`"
)


class Gap(NamedTuple):
    """Numbers that a writer has given to entries that are not there."""

    writer: int
    first: int
    last: int


def seal_all(
    using: str, until: Callable[[], bool] = lambda: False, *, seen: Head | None = None
) -> tuple[int, Head | None]:
    """Seal committed entries, unless another process is doing so. Returns how many, and the head if it moved.

    `seen` is a head that was there before: the chain does not end before it.

    Raises `AuditHeadChanged` if the head is not as Duebox left it: a new link would hide the change.
    """
    count, head = 0, None
    while not until() and audit.is_unsealed(using):
        with transaction.atomic(using=using):
            before = _hold(using)
            if before is None:
                break
            _refuse_older(before, head or seen)
            done, head = _seal_batch(using, before)
        count += done
    return count, head


def accept_head(using: str, *, actor: object = None, reason: str = "") -> Head:
    """Go on from the last link that is there, although the head was changed or removed. That it was so is an entry."""
    with transaction.atomic(using=using):
        audit.make_head(using)
        found = audit.hold_head(using, wait=True)
        assert found is not None
        is_own = found != chain.NEW and chain.is_signed(found)
        begin = (found.pruned_sequence, found.pruned_hash) if is_own else _last_pruned(using)
        end = audit.last_seal(using) or begin
        head = chain.signed(Head(*end, *begin, run_sql.now(using), b""))
        audit.write_head(using, head)
        said = {"reason": reason, "found": [found.sequence, found.hash.hex(), found.pruned_sequence]}
        write([own_entry(ACCEPTED, ("audit", "head"), said, actor)], using)
        return head


def _last_pruned(using: str) -> tuple[int, bytes]:
    """The last link that was pruned, as the entry about it says; without such an entry, the beginning of the chain."""
    metadata = audit.last_metadata(using, PRUNED)
    if metadata is None:
        return chain.NEW.pruned_sequence, chain.NEW.pruned_hash
    try:
        return int(metadata["through"]), bytes.fromhex(metadata["hash"])
    except (KeyError, TypeError, ValueError):  # it was changed by hand
        return chain.NEW.pruned_sequence, chain.NEW.pruned_hash


def _hold(using: str) -> Head | None:
    """The head, which is locked until the transaction ends; None if another process has it."""
    head = audit.hold_head(using)
    if head is None:
        # In this order: another process may write the first head and the first seals between the two reads.
        sealed = audit.last_seal(using)
        if audit.head(using) is None:
            if sealed:
                raise AuditHeadChanged(f"The row of duebox_audit_head is gone; {_REPAIR}.")
            audit.make_head(using)
            head = audit.hold_head(using)
    if head is None:
        return None
    check_head(using, head)
    return head


def _refuse_older(head: Head, seen: Head | None) -> None:
    """An older head that was put back is signed, too. One that was accepted meanwhile is younger."""
    if seen is None or (head.sealed_at and seen.sealed_at and head.sealed_at > seen.sealed_at):
        return
    if head.sequence < seen.sequence or (head.sequence == seen.sequence and head.hash != seen.hash):
        raise AuditHeadChanged(
            f"The head of the audit log was set back from {seen.sequence} to {head.sequence}, or replaced; {_REPAIR}."
        )


def check_head(using: str, head: Head) -> None:
    """Raises `AuditHeadChanged` unless a head, which is locked, is signed and fits the last link."""
    last = audit.last_seal(using) or (head.pruned_sequence, head.pruned_hash)
    if not chain.is_signed(head) or last != (head.sequence, head.hash):
        raise AuditHeadChanged(
            "The head of the audit log is not as Duebox left it, or it was signed with a key that is not known here; "
            f"{_REPAIR}."
        )


def _seal_batch(using: str, head: Head) -> tuple[int, Head]:
    audit.unpack(using, BATCHES)
    found = audit.unsealed(using, BATCH)
    whole = not any(row.is_cut for row in found) or all(row.id is None for row in found)
    entries, sealed, gaps = _in_order(found, whole=whole)
    seals = chain.linked(head, entries)
    if seals:
        head = head._replace(sequence=seals[-1].sequence, hash=seals[-1].hash)
    head = chain.signed(head._replace(sealed_at=run_sql.now(using)))
    audit.seal(using, seals, sealed)
    audit.write_head(using, head)
    if gaps:
        write([_missing(gap) for gap in gaps], using)
    return len(seals), head


def _in_order(found: Iterable[Unsealed], *, whole: bool) -> tuple[list[tuple[int, bytes]], dict[int, int], list[Gap]]:
    """The entries to seal, in the order of the chain; for each writer, the number up to which its entries are sealed
    then; and the gaps in the numbers of the writers, where entries were removed.

    A writer is a session of the database that numbers its entries. An entry whose number was used before is not sealed.
    If `found` is not the `whole` of what is unsealed, numbers after the last entry of a writer are not missing: these
    entries may follow in the next batch."""
    entries: list[tuple[int, bytes]] = []
    gaps: list[Gap] = []
    done: dict[int, int] = {}
    given: dict[int, int] = {}
    for row in found:
        last = done.setdefault(row.writer, row.sealed)
        given[row.writer] = row.number
        if row.id is None or row.text is None or row.writer_number is None or row.writer_number <= last:
            continue
        if row.writer_number > last + 1:
            gaps.append(Gap(row.writer, last + 1, row.writer_number - 1))
        entries.append((row.id, row.text))
        done[row.writer] = row.writer_number
    if whole:
        gaps += [Gap(writer, done[writer] + 1, number) for writer, number in given.items() if done[writer] < number]
        done = given
    return entries, done, gaps


def _missing(gap: Gap) -> Entry:
    logger.error("audit entries are missing: writer=%d numbers=%d-%d; they were removed before they were sealed", *gap)
    return own_entry(MISSING, ("audit", "writer"), gap._asdict())


class HeadsOutside:
    """Heads for places outside of the database: somebody who holds one can prove that nothing before it was changed,
    removed or put in.

    Appends a line to AUDIT_HEAD_FILE, and emits `duebox.audit.sealed` if a handler or a route takes it; at most once a
    minute, while something is sealed."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._next_at = 0.0
        self._unsent: Head | None = None

    def send(self, head: Head | None, *, now: bool = False) -> None:
        """Send a head, or the last one that was not sent yet."""
        self._unsent = head or self._unsent
        if self._unsent is None or (time.monotonic() < self._next_at and not now):
            return
        said = {
            "sequence": self._unsent.sequence,
            "hash": self._unsent.hash.hex(),
            "sealed_at": self._unsent.sealed_at.isoformat() if self._unsent.sealed_at else None,
        }
        if receivers_of(EVENT):
            emit_many([NewEvent(type=EVENT, data=said, about=("audit", "head"))], using=self._using)
        if path := conf().AUDIT_HEAD_FILE:
            _append(path, said)
        self._unsent = None
        self._next_at = time.monotonic() + OUTSIDE_SECONDS


def _append(path: str, said: dict[str, object]) -> None:
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")
    except OSError as error:
        logger.error("AUDIT_HEAD_FILE cannot be written: %s: %s", path, error.strerror)
