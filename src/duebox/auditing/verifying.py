"""Verify: read every chain from its beginning to its end, and find what was edited, removed, inserted or reordered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from duebox.auditing import keys
from duebox.auditing.chain import hash_of, is_sealed
from duebox.auditing.doubt import DOUBT, doubted
from duebox.auditing.receipts import Receipt, Receipts
from duebox.auditing.verdict import Flaw, Verdict, missing, unsealed
from duebox.store import audits
from duebox.store.audits import Head, Last, Stored

BATCH = 5_000
NOTHING = bytes(32)
"""What stands before the first entry of a chain."""
FARTHEST = 2**63 - 1
"""Beyond any place and id; its negative is before all of them, also those that nobody should have written."""

Progress = Callable[[int], None]


def verify(
    using: str,
    *,
    organization: str | None = None,
    since: datetime | None = None,
    receipts: Receipts | None = None,
    progress: Progress | None = None,
) -> Iterator[Verdict]:
    """A verdict on each organization, or on one; with `since` from its last entry before then on, which is trusted.

    Each batch is a statement of its own, so that nobody is held up. What is added meanwhile is read too.
    """
    left = {name: each for name, each in (receipts or {}).items() if organization in (None, name)}
    heads = {verdict.organization: verdict for verdict in _heads(using, organization)}
    for verdict in _chains(using, organization, since, left, progress):
        head = heads.pop(verdict.organization, None)
        if head and head.first:
            verdict.note(head.first)
        yield verdict
    for verdict in heads.values():
        _compare(verdict, left.pop(verdict.organization, None))
        yield verdict
    for name, receipt in left.items():
        yield Verdict(name, 0, NOTHING, flaws=1, first=missing(1, receipt.sequence))


def _heads(using: str, organization: str | None) -> Iterator[Verdict]:
    """On the heads in which something is wrong, and on those of chains without entries."""
    after: str | None = None
    while found := audits.heads(using, only=organization, after=after, limit=BATCH):
        for head, last in found:
            flaw = _of_head(head, last)
            if flaw or last is None:
                yield Verdict(head.organization, head.sequence, head.hash, flaws=1 if flaw else 0, first=flaw)
        after = found[-1][0].organization


def _of_head(head: Head, last: Last | None) -> Flaw | None:
    sequence = last.sequence if last else head.pruned_sequence
    if sequence < head.sequence:
        return missing(sequence + 1, head.sequence)
    if last and sequence > head.sequence:
        return Flaw(head.sequence + 1, last.id if sequence == head.sequence + 1 else None, "is unknown to the head")
    if last and last.hash != head.hash:
        return Flaw(sequence, last.id, "is not the one that the head knows as the last")
    return None if is_sealed(head) else unsealed(head.sequence)


def _chains(
    using: str, organization: str | None, since: datetime | None, receipts: Receipts, progress: Progress | None
) -> Iterator[Verdict]:
    if since is None:
        rows = _from(using, organization or "", -FARTHEST, progress, only=organization is not None)
        yield from walk(rows, receipts)
        return
    for name, last in audits.starts(using, since, only=organization):
        rows = _from(using, name, -FARTHEST if last is None else last, progress, only=True)
        yield from walk(rows, receipts, whole=last is None)


def _from(using: str, organization: str, start: int, progress: Progress | None, *, only: bool) -> Iterator[Stored]:
    last = place(organization, start - 1)
    while found := audits.read(using, last, only=only, limit=BATCH):
        yield from found
        last = found[-1]
        if progress:
            progress(len(found))
        if len(found) < BATCH:
            return


def place(organization: str, sequence: int) -> Stored:
    """A place in a chain to read on from, whatever entry is there."""
    return Stored(organization, sequence, FARTHEST, b"", b"", b"", None, None)


def walk(rows: Iterable[Stored], receipts: Receipts, *, whole: bool = True) -> Iterator[Verdict]:
    """Link by link, a verdict at the end of each chain. If it is not whole, the first link of it is trusted.

    The receipts of the chains that were met are taken away.
    """
    secrets = keys.every("chain")
    verdict, receipt = None, None
    for row in rows:
        if verdict is None or row.organization != verdict.organization:
            if verdict:
                yield _compare(verdict, receipt)
            verdict, receipt = _begin(row, whole=whole), receipts.pop(row.organization, None)
        for flaw in _flaws(row, verdict, secrets, receipt):
            verdict.note(flaw)
        verdict.entries += 1
        verdict.sequence, verdict.hash = row.sequence, row.hash
    if verdict:
        yield _compare(verdict, receipt)


def _begin(row: Stored, *, whole: bool) -> Verdict:
    pruned = (row.pruned_sequence or 0, row.pruned_hash or NOTHING)
    verdict = Verdict(row.organization, *(pruned if whole else (row.sequence - 1, row.previous_hash)))
    if row.pruned_hash is None:
        verdict.note(Flaw(row.sequence, row.id, "belongs to a chain whose head is gone"))
    return verdict


def _flaws(row: Stored, before: Verdict, secrets: list[bytes], receipt: Receipt | None) -> Iterator[Flaw]:
    """What is wrong with a link, beside the one before it. After a flaw the chain is followed as it is found."""
    if row.sequence != before.sequence + 1:
        yield from _gap(row, before)
    elif row.previous_hash != before.hash:
        yield Flaw(row.sequence, row.id, "does not follow from the one before it")
    if not any(hash_of(secret, row.previous_hash, row.text) == row.hash for secret in secrets):
        yield Flaw(row.sequence, row.id, "is not as it was written")
    if DOUBT in row.text and not is_sealed(doubted(row.text)):
        yield Flaw(row.sequence, row.id, "was written after somebody changed the head")
    if receipt and row.sequence == receipt.sequence and row.hash != receipt.hash:
        yield Flaw(row.sequence, row.id, "is another one than the receipt knows")


def _gap(row: Stored, before: Verdict) -> Iterator[Flaw]:
    if row.sequence <= before.sequence:
        yield Flaw(row.sequence, row.id, "is out of place")
    elif row.sequence - 1 != row.pruned_sequence or row.previous_hash != row.pruned_hash:
        # Otherwise what is not there was pruned while this was read.
        yield missing(before.sequence + 1, row.sequence - 1)


def _compare(verdict: Verdict, receipt: Receipt | None) -> Verdict:
    if receipt and receipt.sequence > verdict.sequence:
        verdict.note(missing(verdict.sequence + 1, receipt.sequence))
    return verdict
