"""Settlement as the worker does it: together with the word about those that died."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from django.db import transaction

from duebox.notices import deaths
from duebox.store import deliveries, leases
from duebox.store.deliveries import Ended


def settle(using: str, lease: int, ended: Sequence[Ended], *, now: datetime | None = None) -> set[int]:
    """As in the store; a death and its notice are committed together."""
    died = deaths.to_tell(ended)
    if not died:
        return deliveries.settle(using, lease, ended, now=now)
    with transaction.atomic(using=using):
        lost = deliveries.settle(using, lease, ended, now=now)
        deaths.tell(using, [deaths.death_of(end) for end in died if end.claim.id not in lost])
    return lost


def rescue(using: str, limit: int, *, always: bool = False) -> int:
    return leases.rescue(using, limit, always=always, tell=partial(deaths.tell_of_killers, using))
