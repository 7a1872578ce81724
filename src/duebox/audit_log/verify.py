"""Verify: read the chain from its beginning to its end, and find what was edited, removed, inserted or reordered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from duebox.audit_log import chain
from duebox.audit_log.seal import ACCEPTED, MISSING
from duebox.exceptions import InvalidAudit
from duebox.store import audit
from duebox.store.audit import Head, Link

BATCH = 5_000
LISTED = 1_000
"""The maximum number of links after the head that are counted."""

Progress = Callable[[int], None]


class Flaw(NamedTuple):
    """Something that is not as Duebox wrote it. `sequence` is None for an entry that has no link, `id` for one that is
    gone."""

    sequence: int | None
    id: int | None
    what: str

    def __str__(self) -> str:
        if self.sequence is None:
            return f"entry with id {self.id} {self.what}" if self.id is not None else self.what
        which = f"entry {self.sequence}" if self.id is None else f"entry {self.sequence} (id {self.id})"
        return f"{which} {self.what}"


class Receipt(NamedTuple):
    """Where the chain ended at some time, remembered outside of the database. Somebody who can write to the database
    can put an old head back together with the entries of that time, or remove everything: only a receipt shows it."""

    sequence: int
    hash: bytes


@dataclass(slots=True)
class Verdict:
    """How many sealed entries were read, how many are not sealed yet, where the chain ends, and what is wrong."""

    entries: int = 0
    unsealed: int = 0
    sequence: int = 0
    hash: bytes = chain.START
    sealed_at: datetime | None = None
    flaws: int = 0
    first: Flaw | None = None

    def note(self, flaw: Flaw) -> None:
        """Only the first flaw is stored, and how many there are."""
        self.flaws += 1
        if self.first is None or _place(flaw) < _place(self.first):
            self.first = flaw

    def as_dict(self) -> dict[str, Any]:
        return {
            "entries": self.entries,
            "unsealed": self.unsealed,
            "sequence": self.sequence,
            "hash": self.hash.hex(),
            "sealed_at": self.sealed_at.isoformat() if self.sealed_at else None,
            "flaws": self.flaws,
            "first": None if self.first is None else self.first._asdict(),
        }


def _place(flaw: Flaw) -> float:
    return float("inf") if flaw.sequence is None else flaw.sequence


def read_receipts(lines: Iterable[str]) -> list[Receipt]:
    """From what `duebox audit verify --json` printed, or from AUDIT_HEAD_FILE."""
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            said = json.loads(line)
            found.append(Receipt(int(said["sequence"]), bytes.fromhex(said["hash"])))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidAudit(
                f"Line {number} is not a receipt ({error}); keep what `duebox audit verify --json` prints."
            ) from error
    return found


def verify(
    using: str,
    *,
    organization: str | None = None,
    since: datetime | None = None,
    receipts: Iterable[Receipt] = (),
    progress: Progress | None = None,
) -> Verdict:
    """Read the links up to the head, and the entries of all organizations or of one; with `since` from the first entry
    of that time on, trusting what was before.

    Each batch is a statement of its own, so that nothing is blocked for long. Entries that are sealed meanwhile are not
    verified.
    """
    head = audit.head(using)
    verdict = Verdict()
    if head is None:
        if audit.last_seal(using):
            verdict.note(Flaw(None, None, "the head of the chain is gone"))
        head = chain.NEW
    elif not chain.is_signed(head):
        verdict.note(Flaw(head.sequence, None, "is the last, but the signature of the head is wrong"))
    _Walk(using, head, verdict, organization, receipts).run(since, progress)
    verdict.sealed_at = head.sealed_at
    for sequence, id in audit.beyond(using, LISTED):
        verdict.note(Flaw(sequence, id, "is outside of the range that the head names"))
    _look_at_unsealed(using, verdict)
    return verdict


def verify_links(links: Iterable[Link], head: Head) -> Flaw | None:
    """The first thing that is wrong with the oldest links, which are about to be pruned."""
    verdict = Verdict(sequence=head.pruned_sequence, hash=head.pruned_hash)
    secrets = chain.every("chain")
    for link in links:
        for flaw in _flaws(link, verdict.sequence, verdict.hash, secrets):
            verdict.note(flaw)
        verdict.sequence, verdict.hash = link.sequence, link.hash
    return verdict.first


class _Walk:
    """From link to link, up to where the head was when it began."""

    def __init__(
        self, using: str, head: Head, verdict: Verdict, organization: str | None, receipts: Iterable[Receipt]
    ) -> None:
        self.using = using
        self.head = head
        self.verdict = verdict
        self.organization = organization
        self.receipts: dict[int, set[bytes]] = {}
        for receipt in receipts:
            self.receipts.setdefault(receipt.sequence, set()).add(receipt.hash)
        self.secrets = chain.every("chain")
        verdict.sequence, verdict.hash = head.pruned_sequence, head.pruned_hash

    def run(self, since: datetime | None, progress: Progress | None) -> None:
        if since is not None:
            self._begin_at(since)
        verdict = self.verdict
        self._compare(verdict.sequence, None, verdict.hash)
        for link in self._links(progress):
            if link.sequence != verdict.sequence + 1:
                self._skip_pruned(link.sequence - 1)
            if link.sequence <= verdict.sequence:
                continue
            for flaw in _flaws(link, verdict.sequence, verdict.hash, self.secrets):
                verdict.note(flaw)
            self._compare(link.sequence, link.entry_id, link.hash)
            for flaw in _told(link, link.text or b""):
                verdict.note(flaw)
            verdict.entries += link.text is not None
            verdict.sequence, verdict.hash = link.sequence, link.hash
        self._end()

    def _begin_at(self, since: datetime) -> None:
        """The link before the first of that time is trusted."""
        before = audit.start(self.using, since) - 1
        if before <= self.head.pruned_sequence:
            return
        found = audit.read(self.using, after=before - 1, until=before, organization=None, limit=1)
        if found:
            self.verdict.sequence, self.verdict.hash = found[0].sequence, found[0].hash
        else:
            self.verdict.note(_missing(before, before))
            self.verdict.sequence = before

    def _compare(self, sequence: int, id: int | None, hash: bytes) -> None:
        if self.receipts.get(sequence, set()) - {hash}:
            self.verdict.note(Flaw(sequence, id, "has another hash than the receipt"))

    def _links(self, progress: Progress | None) -> Iterator[Link]:
        after, until = self.verdict.sequence, self.head.sequence
        while found := audit.read(self.using, after=after, until=until, organization=self.organization, limit=BATCH):
            yield from found
            after = found[-1].sequence
            if progress:
                progress(len(found))

    def _skip_pruned(self, last: int) -> None:
        """Missing entries may have been pruned while this was read."""
        head = audit.head(self.using)
        if head and chain.is_signed(head) and head.pruned_sequence >= last:
            self.verdict.sequence, self.verdict.hash = head.pruned_sequence, head.pruned_hash

    def _end(self) -> None:
        verdict, head = self.verdict, self.head
        if verdict.sequence < head.sequence:
            self._skip_pruned(head.sequence)
        if verdict.sequence < head.sequence:
            verdict.note(_missing(verdict.sequence + 1, head.sequence))
        elif verdict.sequence == head.sequence and verdict.hash != head.hash:
            verdict.note(Flaw(verdict.sequence, None, "is not the one that the head knows as the last"))
        if (latest := max(self.receipts, default=0)) > head.sequence:
            verdict.note(_missing(head.sequence + 1, latest))


def _flaws(link: Link, sequence: int, previous: bytes, secrets: list[bytes]) -> Iterator[Flaw]:
    """What is wrong with a link behind another one. After a flaw the chain is followed as it is found."""
    if link.sequence != sequence + 1:
        yield _missing(sequence + 1, link.sequence - 1)
    elif not chain.follows(link, previous, secrets):
        yield Flaw(link.sequence, link.entry_id, "does not follow from the one before it")
    if not link.has_entry:
        yield Flaw(link.sequence, link.entry_id, "is missing")
    elif link.text is not None and not chain.is_of(link, link.text, secrets):
        yield Flaw(link.sequence, link.entry_id, "is not as it was written")


def _told(link: Link, text: bytes) -> Iterator[Flaw]:
    """What Duebox has recorded about the log itself."""
    if MISSING.encode() not in text and ACCEPTED.encode() not in text:
        return
    action, entity_type, said = itemgetter(3, 4, 12)(json.loads(text))
    if (action, entity_type) == (MISSING, "audit"):
        removed = _removed(said["last"] - said["first"] + 1)
        yield Flaw(link.sequence, link.entry_id, f"records that {removed} before being sealed")
    elif (action, entity_type) == (ACCEPTED, "audit"):
        yield Flaw(link.sequence, link.entry_id, "records that the head had been changed, and was accepted")


def _look_at_unsealed(using: str, verdict: Verdict) -> None:
    strays, first = audit.strays(using)
    if strays:
        verdict.note(Flaw(None, first, "was not written by Duebox: no writer has numbered it"))
        verdict.flaws += strays - 1
    for writer in audit.waiting(using):
        verdict.unsealed += writer.found
        missing = writer.number - writer.sealed - writer.found
        if writer.number < writer.sealed:
            verdict.note(Flaw(None, None, f"the number of writer {writer.writer} is below that of its sealed entries"))
        elif missing:
            verdict.note(Flaw(None, None, f"{_removed(missing)} before being sealed (writer {writer.writer})"))


def _removed(count: int) -> str:
    return "1 entry was removed" if count == 1 else f"{count} entries were removed"


def _missing(first: int, last: int) -> Flaw:
    return Flaw(first, None, "is missing" if first == last else f"and all up to {last} are missing")
