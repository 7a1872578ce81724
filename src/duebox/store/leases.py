"""Who is alive: leases on the database's clock, and the rescue of what lost workers held."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from duebox.fingerprint import WORKER_LOST
from duebox.store.statements import execute, run
from duebox.subscribers import by_name

logger = logging.getLogger("duebox.worker")


def take(using: str, seconds: float) -> int:
    """A fresh lease: the fencing token of everything claimed under it."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    lease: int = run("lease_take", using, {"name": name, "seconds": seconds})[0][0]
    return lease


def renew(using: str, lease: int, seconds: float, *, probe: bool = False) -> bool:
    """False when the lease has run out; it cannot be had back."""
    return bool(run("lease_renew", using, {"lease": lease, "seconds": seconds, "probe": probe}))


class Heart(NamedTuple):
    name: str
    mode: str
    beat_seconds_ago: float
    seconds_left: float
    """Below 0: the lease ran out, and nobody has buried it yet."""


def hearts(using: str, host: str) -> list[Heart]:
    """The workers that took a lease on this host, oldest first."""
    return [Heart(*row) for row in run("lease_hearts", using, {"host": host})]


def set_mode(using: str, lease: int, *, mode: str, listening: bool) -> None:
    execute("lease_mode", using, {"lease": lease, "mode": mode, "listening": listening})


def announce_suspect(using: str, lease: int, delivery: int | None) -> None:
    execute("lease_suspect", using, {"lease": lease, "delivery": delivery})


def drop(using: str, lease: int) -> None:
    execute("lease_drop", using, {"lease": lease})


class Killer(NamedTuple):
    """A delivery that went to the dead letters because workers were lost while they ran it."""

    delivery: int
    event_id: str
    subscriber: str
    attempts: int
    rescues: int
    lease: int
    """Of the last worker that it took along."""


def rescue(
    using: str,
    limit: int,
    *,
    always: bool = False,
    now: datetime | None = None,
    tell: Callable[[list[Killer]], None] | None = None,
) -> int:
    """Bury the workers whose heartbeat stopped and free what they held; `always` looks for strays as well. Whoever is
    to be told of deaths is told in the same transaction."""
    with transaction.atomic(using=using):
        buried = run("lease_bury", using, {})
        if not buried and not always:
            return 0
        suspects = {suspect: lease for lease, _, suspect in buried}
        # A statement of its own: its snapshot must be younger than the last claim of the buried.
        skipping = [name for name, each in by_name().items() if each.on_dead == "skip"]
        params = {"suspects": list(suspects), "skipping": skipping, "limit": limit, "now": now}
        freed = run("rescue", using, {**params, "fingerprint": WORKER_LOST})
        execute("promote_all", using, {})
        killers = [
            Killer(delivery, event, subscriber, attempt + 1, rescues, suspects[delivery])
            for delivery, event, subscriber, status, attempt, rescues in freed
            if status == "dead"
        ]
        if killers and tell is not None:
            tell(killers)
    _log(buried, freed)
    return len(freed)


def _log(buried: Sequence[tuple[Any, ...]], freed: Sequence[tuple[Any, ...]]) -> None:
    for lease, name, _ in buried:
        logger.warning("worker lost: lease=%s name=%s", lease, name)
    for delivery, event, subscriber, status, *_ in freed:
        level = logging.ERROR if status == "dead" else logging.INFO
        logger.log(
            level,
            "rescued: delivery=%s event_id=%s subscriber=%s now=%s",
            delivery,
            event,
            subscriber,
            status,
        )
