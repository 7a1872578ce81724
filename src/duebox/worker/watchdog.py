"""One thread per worker that ends waits which take too long by shutting down the socket, so that the waiting thread
gets an error.

A connection can be dead without a sign: no FIN, no RST, no answer. Where the kernel does not notice it, as behind a
proxy that stays up, the thread that waits would wait for ever.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import ProgrammingError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from duebox.store.leases import backends, terminate_sessions
from duebox.worker.tunables import TUNABLES


def cancel(connection: BaseDatabaseWrapper | None) -> None:
    """Cancel the statement that another thread waits for, if there is one. Without that the server would go on with it
    after the connection is closed."""
    with suppress(Exception):  # it has no connection, or the server does not answer
        connection.connection.cancel_safe(timeout=TUNABLES.cancel_seconds)  # type: ignore[union-attr]


def cut(connection: BaseDatabaseWrapper | None) -> None:
    """Close the connection of a thread that is left behind: the server rolls back what it did, and releases its locks.

    The socket is shut down, which is safe while the other thread is in the middle of a call, and works behind a pooler
    too: the process id that a connection behind one knows may be that of another client's session.
    """
    if connection is not None:
        shut_down_socket(connection.connection)


def shut_down_socket(connection: Any) -> None:
    """Of a psycopg connection. A thread that waits for an answer on it gets an error."""
    try:
        copy = socket.socket(fileno=os.dup(connection.pgconn.socket))
    except Exception:  # it has none, or has just closed it
        return
    with copy, suppress(OSError):
        copy.shutdown(socket.SHUT_RDWR)


logger = logging.getLogger("duebox.worker")

_FRAMES = 5
_here = threading.local()


class Watch:
    """The connection of one thread, and until when it may wait for an answer."""

    __slots__ = ("connection", "is_lost", "name", "thread", "until", "waited")

    def __init__(self, name: str, connection: Any, is_lost: Callable[[], bool] | None = None) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self.connection = connection
        """Django's wrapper, which gets another connection when it connects again, or psycopg's own."""
        self.until = float("inf")
        self.is_lost = is_lost
        """Whether the lease is lost under which this thread works."""
        self.waited = 0
        """How often in a row it was seen waiting for the server, with its lease lost."""

    def session(self) -> tuple[int, float] | None:
        """The server process of this connection, and when it was made on the monotonic clock."""
        pid, connected_at = _backend_pid(self), getattr(self.connection, "connected_at", None)
        return None if not pid or connected_at is None else (pid, connected_at)

    def psycopg(self) -> Any:
        """The psycopg connection; None while there is none."""
        return getattr(self.connection, "connection", self.connection)

    def waits(self) -> bool:
        """Whether the server has not answered a statement yet."""
        try:
            return bool(self.psycopg().pgconn.transaction_status == TransactionStatus.ACTIVE)
        except Exception:  # it has none, or has just closed it
            return False

    def is_in_driver(self) -> bool:
        """Whether the thread is inside psycopg. While a handler reads the rows of a result one by one it mostly is
        not."""
        frame = sys._current_frames().get(self.thread)
        for _ in range(_FRAMES):
            if frame is None:
                return False
            if frame.f_globals.get("__name__", "").startswith("psycopg."):
                return True
            frame = frame.f_back
        return False

    def cut(self, reason: str) -> None:
        logger.warning("connection closed: thread=%s reason=%s", self.name, reason)
        self.until = float("inf")
        self.waited = 0
        shut_down_socket(self.psycopg())


class Watchdog:
    """Looks at all watched connections several times a second, and then calls the `checks`, which have deadlines of
    their own."""

    def __init__(self) -> None:
        self.checks: list[Callable[[], None]] = []
        self.watches: set[Watch] = set()
        self._silent_since: dict[tuple[Watch, int, float], float] = {}
        self._closed: list[tuple[int, float]] = []
        """Sessions whose socket was shut down here. The server may not know."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="duebox-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @contextmanager
    def watching(self, watch: Watch) -> Iterator[Watch]:
        """Called by the thread that is watched: `limit` and `limited` work in it meanwhile."""
        self.watches.add(watch)
        before, _here.watch = getattr(_here, "watch", None), watch
        try:
            yield watch
        finally:
            _here.watch = before
            self.watches.discard(watch)

    def close_silent(self, using: str, seconds: float) -> None:
        """Close the connections of threads that have waited this long for an answer although the server is idle in
        their sessions: the statement or the answer was lost. Sessions in which the server works are not closed.

        The heartbeat calls it, on its own connection. Behind a pooler it does nothing: the process ids there are the
        pooler's own."""
        waiting = {pid: watch for watch in self.watches.copy() if watch.waits() and (pid := _backend_pid(watch))}
        since: dict[tuple[Watch, int, float], float] = {}
        if waiting or self._closed:
            mine, known = backends(using, list(waiting))
            if mine == connections[using].connection.info.backend_pid:
                for pid, watch in waiting.items():
                    changed_at = 0.0
                    if (backend := known.get(pid)) is not None:
                        if not backend.waits_for_client:
                            continue
                        changed_at = backend.changed_at
                    mark = (watch, pid, changed_at)
                    since[mark] = self._silent_since.get(mark, time.monotonic())
                    if time.monotonic() - since[mark] >= seconds and watch.waits() and watch.is_in_driver():
                        self._close(watch, "it waits for an answer that the server does not have")
                self._terminate_closed(using)
            else:
                self._closed.clear()
        self._silent_since = since

    def _terminate_closed(self, using: str) -> None:
        """End the sessions of closed connections on the server, too. Where the network lost the connection, the server
        does not know that it is closed: a transaction that is open there would hold its row locks for hours, and no
        other worker could take the deliveries that it has locked."""
        closed, now = self._closed.copy(), time.monotonic()
        if not closed:
            return
        try:
            for pid in terminate_sessions(using, [(pid, now - connected_at) for pid, connected_at in closed]):
                logger.warning("session of a closed connection terminated: pid=%s", pid)
        except ProgrammingError as error:  # the role may not
            logger.warning("sessions of closed connections not terminated: %s", str(error).strip())
        for each in closed:
            self._closed.remove(each)

    def _close(self, watch: Watch, reason: str) -> None:
        if (session := watch.session()) is not None:
            self._closed.append(session)
        watch.cut(reason)

    def _look_until_stopped(self) -> None:
        while not self._stopping.wait(TUNABLES.watchdog_tick_seconds):
            try:
                self.look()
            except Exception:
                logger.exception("unexpected error in the watchdog; it goes on")

    def look(self) -> None:
        for check in self.checks:
            check()
        now = time.monotonic()
        for watch in self.watches.copy():
            if now > watch.until and watch.waits():
                self._close(watch, "the server did not answer in time")
            elif watch.is_lost is not None and watch.is_lost() and watch.waits():
                watch.waited += 1
                if watch.waited > 1:  # a statement that has just begun may be the one that finds it out
                    self._close(watch, "it waits for the server and its lease is lost")
            else:
                watch.waited = 0


def _backend_pid(watch: Watch) -> int:
    try:
        return int(watch.psycopg().info.backend_pid)
    except Exception:  # it has just closed it
        return 0


def limit(seconds: float | None = TUNABLES.statement_seconds) -> None:
    """From now on this thread waits for the server no longer than this; None removes the limit."""
    watch: Watch | None = getattr(_here, "watch", None)
    if watch is not None:
        watch.until = float("inf") if seconds is None else time.monotonic() + seconds


def allow(seconds: float) -> None:
    """Extend the limit of this thread to at least this time, because it has just waited for something else."""
    watch: Watch | None = getattr(_here, "watch", None)
    if watch is not None:
        watch.until = max(watch.until, time.monotonic() + seconds)


@contextmanager
def limited(seconds: float = TUNABLES.statement_seconds) -> Iterator[None]:
    """Statements of this thread inside the block end after this time. Without a watchdog there is no limit."""
    limit(seconds)
    try:
        yield
    finally:
        limit(None)
