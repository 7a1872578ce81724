"""Settlement as the worker does it: together with the word about those that died."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from django.db import InterfaceError, OperationalError, connections, transaction

from duebox.notices import deaths
from duebox.outcome import Dead, Delivered, Outcome, Retried
from duebox.store import deliveries, leases
from duebox.store.deliveries import Ended

logger = logging.getLogger("duebox.worker")

_AGAIN_SECONDS = 60.0


def settle(using: str, lease: int, ended: Sequence[Ended], *, now: datetime | None = None) -> set[int]:
    """As in the store; a death and its notice are committed together. An outcome that cannot be written down, whatever
    a handler made it of, keeps nobody else's from being."""
    try:
        return _settle(using, lease, ended, now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if connections[using].in_atomic_block:
            raise
        logger.exception("outcomes could not be written together; now one by one")
        return set().union(*(_settle_one(using, lease, end, now) for end in ended))


def _settle_one(using: str, lease: int, end: Ended, now: datetime | None) -> set[int]:
    try:
        return _settle(using, lease, [end], now)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        return _settle(using, lease, [end._replace(outcome=_plain(end.outcome, error))], now)


def _plain(outcome: Outcome, error: Exception) -> Outcome:
    """What it comes to, without what a handler has put into it."""
    if outcome is None or isinstance(outcome, Delivered):
        return None
    told = RuntimeError(f"its outcome could not be written down: {type(error).__name__}")
    return Retried(_AGAIN_SECONDS, told) if isinstance(outcome, Retried) else Dead(told)


def _settle(using: str, lease: int, ended: Sequence[Ended], now: datetime | None) -> set[int]:
    died = deaths.to_tell(ended)
    if not died:
        return deliveries.settle(using, lease, ended, now=now)
    with transaction.atomic(using=using):
        lost = deliveries.settle(using, lease, ended, now=now)
        deaths.tell(using, [deaths.death_of(end) for end in died if end.claim.id not in lost])
    return lost


def rescue(using: str, limit: int, *, always: bool = False) -> int:
    return leases.rescue(using, limit, always=always, tell=partial(deaths.tell_of_killers, using))
