"""Connections of a long-lived thread: kept while they work, replaced when they broke or grew old.

Django's `close_old_connections` is made for requests: with the default CONN_MAX_AGE of 0 it closes after every unit,
and a worker that reconnects for each batch spends half of the machine on forking server processes.
"""

from __future__ import annotations

import time

from django.db import connections


def tidy_connections() -> None:
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or connection.in_atomic_block:
            continue
        broken = connection.errors_occurred and not connection.is_usable()
        max_age = connection.settings_dict["CONN_MAX_AGE"]
        if broken or (max_age and connection.close_at is not None and time.monotonic() >= connection.close_at):
            connection.close()
        connection.errors_occurred = False


def close_connections() -> None:
    """For the end of a thread."""
    for connection in connections.all(initialized_only=True):
        connection.close()
