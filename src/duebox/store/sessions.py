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


class Backend(NamedTuple):
    pid: int
    waits_for_client: bool | None
    """None where the server does not say."""
    changed_at: float


def backends(using: str, pids: Sequence[int]) -> tuple[int, dict[int, Backend]]:
    """The process id of this very session, and what the server says about those of the others that it knows."""
    rows = run("session_states", using, {"pids": list(pids)})
    return rows[0][0], {row[1]: Backend(*row[1:]) for row in rows if row[1] is not None}
