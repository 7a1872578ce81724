"""Ending another thread's transaction."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

CANCEL_SECONDS = 2.0


def cancel(connection: BaseDatabaseWrapper | None) -> None:
    """End the statement that another thread waits for, if there is one: the server would go on with it after a cut."""
    with suppress(Exception):  # it has no connection, or the server does not answer
        connection.connection.cancel_safe(timeout=CANCEL_SECONDS)  # type: ignore[union-attr]


def cut(connection: BaseDatabaseWrapper | None) -> None:
    """Hang up for a thread that nobody waits for any longer: the server rolls back what it did, and frees its locks.

    By the socket, which is safe while the other thread is in the middle of a call, and is what a pooler understands
    too: the process id that a connection behind one knows of may be that of an innocent.
    """
    if connection is not None:
        shut_down_socket(connection.connection)


def shut_down_socket(connection: Any) -> None:
    """Of a psycopg connection. A thread that waits for its answer gets an error."""
    try:
        line = socket.socket(fileno=os.dup(connection.pgconn.socket))
    except Exception:  # it has none, or has just closed it
        return
    with line, suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
