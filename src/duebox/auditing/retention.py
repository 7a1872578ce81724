"""Retention: after some years the oldest entries go, and what is left still begins at a hash that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.db import transaction

from duebox.auditing.chain import is_sealed, sealed
from duebox.auditing.record import audit
from duebox.auditing.verdict import Flaw, missing, unsealed
from duebox.auditing.verifying import BATCH, place, walk
from duebox.conf import conf
from duebox.store import audits
from duebox.store.audits import Head, Stored


class Pruned(NamedTuple):
    """What was removed of one organization. Where there is a flaw it stays: evidence is not thrown away."""

    organization: str
    entries: int
    flaw: Flaw | None = None


def prune(using: str, *, years: int | None = None, dry_run: bool = False, actor: object = None) -> Iterator[Pruned]:
    """Remove what is older than so many years, by default AUDIT_YEARS, of each organization.

    What is to go is verified first. That it went is an entry too, by `actor` or whoever is known to ask.
    """
    years = years or conf().AUDIT_YEARS
    for organization, begin, end in audits.stale(using, years=years):
        yield Pruned(organization, end - begin) if dry_run else _all_steps(using, organization, end, years, actor)


def _all_steps(using: str, organization: str, end: int, years: int, actor: object) -> Pruned:
    """In batches with a transaction each: whoever writes for this organization waits for one of them only."""
    removed = 0
    while True:
        with transaction.atomic(using=using):
            head = audits.hold(using, organization)
            if head.pruned_sequence >= end:
                return Pruned(organization, removed)
            oldest = [row for row in _after(using, head) if row.sequence <= end]
            if flaw := _flaw(head, oldest):
                return Pruned(organization, removed, flaw)
            count = _let_go(using, head, oldest[-1])
            told = {"entries": count, "through": oldest[-1].sequence, "years": years}
            home = organization or None
            audit("audit.pruned", ("audit", "entries"), actor=actor, organization=home, metadata=told, using=using)
        removed += count


def _after(using: str, head: Head) -> list[Stored]:
    return audits.read(using, place(head.organization, head.pruned_sequence), only=True, limit=BATCH)


def _flaw(head: Head, oldest: list[Stored]) -> Flaw | None:
    if not is_sealed(head):
        return unsealed(head.sequence)
    verdict = next(walk(oldest, {}), None)
    return verdict.first if verdict else missing(head.pruned_sequence + 1, head.sequence)


def _let_go(using: str, head: Head, last: Stored) -> int:
    return audits.prune(using, sealed(head._replace(pruned_sequence=last.sequence, pruned_hash=last.hash)))
