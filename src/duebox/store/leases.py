"""Worker leases on the database's clock, rescue of the deliveries of lost workers, and database sessions."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from duebox.dead_letters.fingerprint import WORKER_LOST
from duebox.events.subscribers import by_name
from duebox.store.run_sql import execute, run, statement

logger = logging.getLogger("duebox.worker")


def take(using: str, seconds: float) -> int:
    """A fresh lease: the fencing token of everything claimed under it."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    lease: int = run("lease_take", using, {"name": name, "seconds": seconds})[0][0]
    return lease


def renew(using: str, lease: int, seconds: float, *, probe: bool = False) -> bool:
    """False when the lease has expired: it cannot be renewed any more."""
    return bool(run("lease_renew", using, {"lease": lease, "seconds": seconds, "probe": probe}))


class Heartbeat(NamedTuple):
    name: str
    mode: str
    beat_seconds_ago: float
    seconds_left: float
    """Below 0: the lease expired, and no worker has removed it yet."""


def heartbeats(using: str, host: str) -> list[Heartbeat]:
    """The workers that took a lease on this host, oldest first."""
    return [Heartbeat(*row) for row in run("lease_heartbeats", using, {"host": host})]


def set_mode(using: str, lease: int, *, mode: str, listening: bool) -> None:
    execute("lease_mode", using, {"lease": lease, "mode": mode, "listening": listening})


def announce_suspect(using: str, lease: int, delivery: int | None) -> None:
    execute("lease_suspect", using, {"lease": lease, "delivery": delivery})


def drop(using: str, lease: int) -> None:
    execute("lease_drop", using, {"lease": lease})


class CrashingDelivery(NamedTuple):
    """A delivery that went to the dead letters because workers were lost while they ran it."""

    delivery: int
    event_id: str
    subscriber: str
    attempts: int
    rescues: int
    lease: int
    """Of the last worker that was lost while it ran this delivery."""


def rescue(
    using: str,
    limit: int,
    *,
    always: bool = False,
    now: datetime | None = None,
    report_dead: Callable[[list[CrashingDelivery]], None] | None = None,
) -> int:
    """Remove the leases of workers whose heartbeat stopped, and free the deliveries that they had claimed; with
    `always` also those whose lease has no row any more. `report_dead` is called in the same transaction with the
    deliveries that became dead letters because workers were lost while they ran them."""
    with transaction.atomic(using=using):
        expired = run("lease_remove_expired", using, {})
        if not expired and not always:
            return 0
        suspects = {suspect: lease for lease, _, suspect in expired}
        # A statement of its own: its snapshot must be younger than the last claim of these workers.
        skipping = [name for name, each in by_name().items() if each.on_dead == "skip"]
        params = {"suspects": list(suspects), "skipping": skipping, "limit": limit, "now": now}
        freed = run("rescue", using, {**params, "fingerprint": WORKER_LOST})
        execute("stream_promote_all", using, {})
        crashing = [
            CrashingDelivery(delivery, event, subscriber, attempt + 1, rescues, suspects[delivery])
            for delivery, event, subscriber, status, attempt, rescues in freed
            if status == "dead"
        ]
        if crashing and report_dead is not None:
            report_dead(crashing)
    _log(expired, freed)
    return len(freed)


def _log(expired: Sequence[tuple[Any, ...]], freed: Sequence[tuple[Any, ...]]) -> None:
    for lease, name, _ in expired:
        logger.warning("worker lost: lease=%s name=%s", lease, name, extra={"lease": lease, "worker": name})
    for delivery, event, subscriber, status, *_ in freed:
        level = logging.ERROR if status == "dead" else logging.INFO
        logger.log(
            level,
            "rescued: delivery=%s event_id=%s subscriber=%s now=%s",
            delivery,
            event,
            subscriber,
            status,
            extra={"delivery": delivery, "event_id": event, "subscriber": subscriber, "outcome": status},
        )


def limit_session(connection: Any, statement_seconds: float, idle_seconds: float) -> None:
    """Of a psycopg connection: let the server end what takes longer. Behind a pooler nothing is set, since the session
    belongs to others as well; and limits that are tighter already are left alone."""
    params = {
        "pid": connection.info.backend_pid,
        "statement_ms": int(statement_seconds * 1000),
        "idle_ms": int(idle_seconds * 1000),
    }
    with connection.cursor() as cursor:
        cursor.execute(statement("session_limit"), params)


def keep_alive(connection: Any) -> None:
    """Of a psycopg connection: let the server notice within half a minute that this host is gone. By default that takes
    two hours, and the row locks of an open transaction are held as long. Behind a pooler nothing is set."""
    with connection.cursor() as cursor:
        cursor.execute(statement("session_keepalive"), {"pid": connection.info.backend_pid})


class Backend(NamedTuple):
    pid: int
    waits_for_client: bool | None
    """None where the server does not say."""
    changed_at: float


def backends(using: str, pids: Sequence[int]) -> tuple[int, dict[int, Backend]]:
    """The process id of this very session, and what the server says about those of the others that it knows."""
    rows = run("session_states", using, {"pids": list(pids)})
    return rows[0][0], {row[1]: Backend(*row[1:]) for row in rows if row[1] is not None}


def terminate_sessions(using: str, sessions: Sequence[tuple[int, float]]) -> list[int]:
    """End sessions of the same database role, each given by its process id and its age in seconds. Returns the process
    ids of those that were still there. Not behind a pooler, where the process ids are the pooler's own."""
    ages = {"pids": [pid for pid, _ in sessions], "ages": [age for _, age in sessions]}
    return [pid for (pid,) in run("session_terminate", using, ages)]
