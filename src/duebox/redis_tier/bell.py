"""Rings after a commit, so that a worker looks at once. Whoever commits waits for nothing and feels nothing.

A thread of its own talks to Redis. While it does, and for a moment after, all that is rung becomes one message.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time

from duebox.conf import conf
from duebox.redis_tier.connection import client, place
from duebox.store.schedules import Name

logger = logging.getLogger("duebox.redis")

PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 1.0
AWAY_SECONDS = 5.0
"""While Redis is away it is tried this often; workers poll."""
LEAVING_SECONDS = 5.0
"""How long a process that ends waits for its first message: the Redis library may have to be imported for it, which
takes more than a second on a busy machine. One that failed is not waited for."""
MOST_NAMES = 100_000
"""More than that are not remembered while Redis is away: the mirror is built anew now and then."""


class Bell:
    """One for each process."""

    _waiting: dict[str, set[Name]]
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self._forget_thread()
        os.register_at_fork(after_in_child=self._forget_thread)
        atexit.register(self._leave)

    def ring(self, using: str, names: frozenset[Name] = frozenset()) -> None:
        """Wake the workers of a database, and say which schedules have changed."""
        with self._lock:
            known = self._waiting.setdefault(using, set())
            if len(known) < MOST_NAMES:
                known |= names
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_for_ever, name="duebox-bell", daemon=True)
                self._thread.start()
        self._rung.set()

    def _forget_thread(self) -> None:
        """A fork has none of the threads of its parent."""
        self._lock = threading.Lock()
        self._rung, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        self._waiting = {}
        self._thread = None
        self._away = False

    def _leave(self) -> None:
        """A command that emits and ends: give the thread a moment."""
        self._idle.wait(LEAVING_SECONDS)

    def _send_for_ever(self) -> None:
        while True:
            self._rung.wait()
            self._rung.clear()
            if self._send_safely():
                time.sleep(PAUSE_SECONDS)
            else:
                time.sleep(AWAY_SECONDS)
                self._rung.set()

    def _send_safely(self) -> bool:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        try:
            for using, names in waiting.items() if conf().REDIS_URL else ():
                _send(using, names)
        except Exception as error:  # a thread that died would never ring again
            self._tell(away=True, why=str(error) or type(error).__name__)
            self._put_back(waiting)
            self._idle.set()
            return False
        self._tell(away=False)
        with self._lock:
            if not self._waiting:
                self._idle.set()
        return True

    def _put_back(self, waiting: dict[str, set[Name]]) -> None:
        with self._lock:
            for using, names in waiting.items():
                known = self._waiting.setdefault(using, set())
                if len(known) < MOST_NAMES:
                    known |= names

    def _tell(self, *, away: bool, why: str = "") -> None:
        if away and not self._away:
            logger.warning("Redis cannot be reached; workers are woken by polling only: %s", why)
        elif self._away and not away:
            logger.info("Redis can be reached again")
        self._away = away


def _send(using: str, names: set[Name]) -> None:
    with client(TIMEOUT_SECONDS).pipeline(transaction=False) as pipeline:
        if names:
            pipeline.sadd(place(using, "changed"), *(f"{kind}:{name}" for kind, name in names))
        pipeline.publish(place(using, "wake"), "")
        pipeline.execute()


bell = Bell()
