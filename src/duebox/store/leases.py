"""Who is alive: leases on the database's clock, and the rescue of what lost workers held."""

from __future__ import annotations

import logging
import os
import socket
from datetime import datetime

from django.db import transaction

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


def database_time(using: str) -> float:
    """Seconds since 1970 on the database's clock; nothing is written, so the answer is quick."""
    now: float = run("database_time", using, {})[0][0]
    return now


def set_mode(using: str, lease: int, *, mode: str, listening: bool) -> None:
    execute("lease_mode", using, {"lease": lease, "mode": mode, "listening": listening})


def announce_suspect(using: str, lease: int, delivery: int | None) -> None:
    execute("lease_suspect", using, {"lease": lease, "delivery": delivery})


def drop(using: str, lease: int) -> None:
    execute("lease_drop", using, {"lease": lease})


def rescue(using: str, limit: int, *, always: bool = False, now: datetime | None = None) -> int:
    """Bury the workers whose heartbeat stopped and free what they held; `always` looks for strays as well."""
    with transaction.atomic(using=using):
        buried = run("lease_bury", using, {})
        if not buried and not always:
            return 0
        suspects = [suspect for _, _, suspect in buried]
        # A statement of its own: its snapshot must be younger than the last claim of the buried.
        skipping = [name for name, each in by_name().items() if each.on_dead == "skip"]
        freed = run("rescue", using, {"suspects": suspects, "skipping": skipping, "limit": limit, "now": now})
        execute("promote_all", using, {})
    for lease, name, _ in buried:
        logger.warning("worker lost: lease=%s name=%s", lease, name)
    for delivery, event, subscriber, status in freed:
        level = logging.ERROR if status == "dead" else logging.INFO
        logger.log(
            level,
            "rescued: delivery=%s event_id=%s subscriber=%s now=%s",
            delivery,
            event,
            subscriber,
            status,
        )
    return len(freed)
