"""The database connections of a worker's own threads.

They do not come from Django's connection pool: a worker keeps its connections, one for each thread, and a pool that is
smaller than that would make its threads wait for each other. And none of them waits for ever for a server that is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import IsolationLevel

from duebox.store.sessions import keep_alive, limit_session
from duebox.worker.watchdog import ENGINE_SECONDS, Watch, Watchdog, allow

OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""For libpq, unless the OPTIONS of the database say otherwise."""
IDLE_IN_TRANSACTION_SECONDS = 60.0


@contextmanager
def own_connection(
    using: str,
    watchdog: Watchdog,
    name: str,
    *,
    engine: bool = False,
    is_lost: Callable[[], bool] | None = None,
) -> Iterator[Watch]:
    """This thread has a connection of its own, which is watched; with `engine` no user code runs on it, and the server
    limits its statements as well. Afterwards it is closed and the thread has the one that it had before."""
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
    """The settings of a database, for a connection that is kept and is not from the pool. The engine's own statements
    are made for READ COMMITTED; under a stricter level they would only fail where two workers meet."""
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
                limit_session(self.connection, ENGINE_SECONDS, IDLE_IN_TRANSACTION_SECONDS)

    return Own
