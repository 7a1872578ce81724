"""Leaving a destination alone, and going on: each with an entry in the audit log."""

from __future__ import annotations

from django.db import transaction

from duebox.auditing.record import audit
from duebox.store import gates
from duebox.subscribers import OUTSIDE


def pause(using: str, name: str, note: str) -> None:
    with transaction.atomic(using=using):
        gates.pause(using, name, note)
        _record("destination.paused", using, name, note)


def resume(using: str, name: str) -> bool:
    """False when it was neither paused nor left alone because it failed."""
    with transaction.atomic(using=using):
        went_on = gates.resume(using, name)
        if went_on:
            _record("destination.resumed", using, name)
    return went_on


def _record(action: str, using: str, name: str, note: str | None = None) -> None:
    audit(action, ("destination", name.removeprefix(OUTSIDE)), reason=note, using=using)
