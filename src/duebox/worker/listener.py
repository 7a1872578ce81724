"""Hears NOTIFY on a connection of its own, and knows when it has gone deaf."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connections

from duebox.worker.lease import Lease
from duebox.worker.sessions import own_settings
from duebox.worker.watchdog import Watch, Watchdog, limited

logger = logging.getLogger("duebox.worker")

RETRY_SECONDS = 30.0


class Deaf(Exception):
    """The connection is open, yet the worker's own heartbeat was not heard on it."""


class Listener:
    """Calls `wake` when events or schedules were committed, with what the NOTIFY says and the session that sent it.
    `mode` is "listen" only while heartbeats come through.

    A connection can look alive and deliver nothing: a pooler in transaction mode, a half-open socket. So every
    heartbeat of the worker is sent to its own channel, and a listener that misses them falls back to polling.
    """

    def __init__(self, lease: Lease, wake: Callable[..., None], watchdog: Watchdog) -> None:
        self.mode = "poll"
        self._watchdog = watchdog
        self._told = ""
        self._lease = lease
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen_until_stopped, name="duebox-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _listen_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, Deaf, OSError) as error:
                if self._stopping.is_set():
                    return
                self._set_mode("poll", str(error).strip() or type(error).__name__)
                pause = self._lease.beat_seconds if isinstance(error, psycopg.Error) else RETRY_SECONDS
                self._stopping.wait(min(pause, RETRY_SECONDS))

    def _listen(self) -> None:
        wrapper = connections[self._lease.using].copy()
        wrapper.settings_dict = own_settings(wrapper)
        params = _plain_params(wrapper.get_connection_params())
        with (
            psycopg.connect(**params, autocommit=True) as connection,
            self._watchdog.watching(Watch("listener", connection)),
        ):
            lease = self._lease.id
            with limited(self._lease.seconds):
                connection.execute("LISTEN duebox")
                connection.execute(f"LISTEN duebox_{int(lease)}")
            self._lease.hurry.set()
            # With a new lease, emitters must be told again that this worker listens; what was sent meanwhile is lost.
            self._wake()
            heard_at = time.monotonic()
            while not self._stopping.is_set() and lease == self._lease.id:
                for notify in connection.notifies(timeout=self._lease.beat_seconds, stop_after=1):
                    if notify.channel == "duebox":
                        self._wake(notify.payload, notify.pid)
                    else:
                        heard_at = time.monotonic()
                        self._set_mode("listen", "heartbeat heard")
                if time.monotonic() - heard_at > 2.5 * self._lease.beat_seconds:
                    raise Deaf("no notification arrives here; is there a pooler in transaction mode in between?")

    def _set_mode(self, mode: str, reason: str) -> None:
        if mode != self._told:
            level = logging.INFO if mode == "listen" else logging.WARNING
            logger.log(level, "wake-up mode is now %s: %s", mode, reason)
            self.mode = self._told = mode
            # Whatever was committed while nobody listened is fetched now.
            self._wake()


def _plain_params(params: dict[str, Any]) -> dict[str, Any]:
    """What psycopg itself understands of Django's connection parameters."""
    extras = ("cursor_factory", "context", "server_side_binding", "pool", "isolation_level", "assume_role")
    return {name: value for name, value in params.items() if name not in extras}
