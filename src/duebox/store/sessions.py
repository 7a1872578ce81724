"""What the server says about sessions, and what is set for a whole session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duebox.store.statements import run, statement


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
