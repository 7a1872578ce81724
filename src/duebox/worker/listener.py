"""Listens for NOTIFY on a connection of its own, and detects when notifications do not arrive."""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg
from django.db import connections

from duebox.worker.background_threads import BackgroundThread
from duebox.worker.connections import own_settings
from duebox.worker.lease import Lease
from duebox.worker.tunables import TUNABLES
from duebox.worker.wakeup import Wakeup
from duebox.worker.watchdog import Watch, Watchdog, limited

logger = logging.getLogger("duebox.worker")


class NotListening(Exception):
    """The connection is open, yet the worker's own heartbeat was not heard on it."""


class Listener(BackgroundThread):
    """Wakes the worker when events or schedules were committed. `mode` is "listen" only while heartbeats arrive.

    A connection can look alive and deliver nothing: a pooler in transaction mode, a half-open socket. So every
    heartbeat of the worker is sent to its own channel, and a listener that misses them falls back to polling.
    """

    name = "listener"
    is_waited_for = False

    def __init__(self, lease: Lease, wakeup: Wakeup, watchdog: Watchdog) -> None:
        super().__init__()
        self.mode = "poll"
        self._logged_mode = ""
        self._watchdog = watchdog
        self._lease = lease
        self._wakeup = wakeup

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._listen()
            except (psycopg.Error, NotListening, OSError) as error:
                if self.stopping.is_set():
                    return
                self._set_mode("poll", str(error).strip() or type(error).__name__)
                pause = self._lease.beat_seconds if isinstance(error, psycopg.Error) else TUNABLES.listen_again_seconds
                self.stopping.wait(min(pause, TUNABLES.listen_again_seconds))

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
            # With a new lease the worker must store again that it listens; notifications sent meanwhile are lost.
            self._wakeup.notified()
            heard_at = time.monotonic()
            while not self.stopping.is_set() and lease == self._lease.id:
                for notify in connection.notifies(timeout=self._lease.beat_seconds, stop_after=1):
                    if notify.channel == "duebox":
                        self._wakeup.notified(notify.payload, notify.pid)
                    else:
                        heard_at = time.monotonic()
                        self._set_mode("listen", "heartbeat heard")
                if time.monotonic() - heard_at > TUNABLES.missed_heartbeats * self._lease.beat_seconds:
                    raise NotListening(
                        "no notification arrives here; is there a pooler in transaction mode in between?"
                    )

    def _set_mode(self, mode: str, reason: str) -> None:
        if mode != self._logged_mode:
            level = logging.INFO if mode == "listen" else logging.WARNING
            logger.log(level, "wake-up mode is now %s: %s", mode, reason)
            self.mode = self._logged_mode = mode
            # Fetch what was committed while no notification arrived.
            self._wakeup.notified()


def _plain_params(params: dict[str, Any]) -> dict[str, Any]:
    """What psycopg itself understands of Django's connection parameters."""
    extras = ("cursor_factory", "context", "server_side_binding", "pool", "isolation_level", "assume_role")
    return {name: value for name, value in params.items() if name not in extras}
