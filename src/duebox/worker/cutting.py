"""Ending another thread's transaction."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from django.db.backends.base.base import BaseDatabaseWrapper


def cut(connection: BaseDatabaseWrapper | None) -> None:
    """Hang up for a thread that nobody waits for any longer: the server rolls back what it did, and frees its locks.

    By the socket, which is safe while the other thread is in the middle of a call, and is what a pooler understands
    too: the process id that a connection behind one knows of may be that of an innocent.
    """
    try:
        line = socket.socket(fileno=os.dup(connection.connection.pgconn.socket))  # type: ignore[union-attr]
    except Exception:  # it has none, or has just closed it
        return
    with line, suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
