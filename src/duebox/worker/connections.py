"""Database connections of the worker's threads: kept open, and replaced when they are broken or old; and retries after
database errors.

Django's `close_old_connections` is made for requests: with the default CONN_MAX_AGE of 0 it closes the connection each
time, and a worker that connects again for each batch spends half of the machine on starting server processes.

The connections do not come from Django's connection pool: a worker keeps one for each thread, and a smaller pool would
make its threads wait for each other. None of them waits for ever for a server that is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import IsolationLevel

from duebox.store.leases import keep_alive, limit_session
from duebox.worker.tunables import TUNABLES
from duebox.worker.watchdog import Watch, Watchdog, allow, limited


def replace_connections() -> None:
    """Close the connections of this thread that are broken or older than CONN_MAX_AGE; Django opens them again."""
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


logger = logging.getLogger("duebox.worker")

T = TypeVar("T")


def with_retries(action: Callable[[], T]) -> T:
    """Try again after database errors, for as long as a restart of the server takes. The last error is raised."""
    for wait in TUNABLES.retry_waits:
        try:
            with limited():
                return action()
        except (OperationalError, InterfaceError) as error:
            replace_connections()
            logger.warning("database error, trying again in %g s: %s", wait, str(error).strip())
            time.sleep(wait)
    with limited():
        return action()


OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""For libpq, where the OPTIONS of the database do not set them. Together with the timeouts of the kernel they end a
wait for a server that is gone within half a minute."""


@contextmanager
def own_connection(
    using: str,
    watchdog: Watchdog,
    name: str,
    *,
    engine: bool = False,
    is_lost: Callable[[], bool] | None = None,
) -> Iterator[Watch]:
    """Give this thread a connection of its own, which the watchdog watches. With `engine` no user code runs on it, and
    the server limits its statements as well. Afterwards it is closed, and the thread has the one that it had before."""
    before = connections[using]
    kind: Any = type(before)
    own = _own_class(kind)(own_settings(before, engine=engine), using)
    own.limits_itself = engine
    connections[using] = own
    try:
        with watchdog.watching(Watch(name, own, is_lost)) as watch:
            yield watch
    finally:
        try:
            own.close()
        finally:
            connections[using] = before


def own_settings(wrapper: BaseDatabaseWrapper, *, engine: bool = False) -> dict[str, Any]:
    """The settings of a database, for a connection that stays open and is not from the pool. The engine's own
    statements are made for READ COMMITTED; under a stricter level they would only fail where two workers meet."""
    settings: dict[str, Any] = wrapper.copy().settings_dict
    given = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    settings["OPTIONS"] = {**OPTIONS, **given}
    if engine:
        settings["OPTIONS"]["isolation_level"] = IsolationLevel.READ_COMMITTED
    return settings


@cache
def _own_class(kind: Any) -> Any:
    class Own(kind):  # type: ignore[misc]
        limits_itself = False
        connected_at: float | None = None
        """On the monotonic clock."""

        def init_connection_state(self) -> None:
            self.connected_at = time.monotonic()
            allow(OPTIONS["connect_timeout"])  # making the connection has a limit of its own
            super().init_connection_state()
            keep_alive(self.connection)
            if self.limits_itself:
                limit_session(self.connection, TUNABLES.statement_seconds, TUNABLES.idle_in_transaction_seconds)

    return Own
