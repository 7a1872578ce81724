"""Wake workers through Redis after a commit, for workers whose connection to PostgreSQL cannot LISTEN.

A separate thread sends messages to Redis, so that a commit does not wait. While it does, and for a moment after, all
wake-ups become one message.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from duebox.conf import conf
from duebox.events.after_commit import Name
from duebox.redis.connection import client, place, what_is_missing
from duebox.redis.schedule_mirror import Mirroring

logger = logging.getLogger("duebox.redis")

PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 1.0
AWAY_SECONDS = 5.0
"""The retry interval while Redis is down; workers poll meanwhile."""
LEAVING_SECONDS = 5.0
"""How long a process that ends waits for its first message: importing the Redis library may take more than a second on
a busy machine. It does not wait after a failure."""
MOST_NAMES = 100_000
"""The maximum number of changed schedules to remember while Redis is down: the mirror is rebuilt from time to time."""


class RedisWakeup:
    """Sends wake-ups; one for each process."""

    _waiting: dict[str, set[Name]]
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self._forget_thread()
        os.register_at_fork(after_in_child=self._forget_thread)
        atexit.register(self._leave)

    def wake(self, using: str, names: frozenset[Name] = frozenset()) -> None:
        """Wake the workers of a database, and report the schedules that changed."""
        with self._lock:
            known = self._waiting.setdefault(using, set())
            if len(known) < MOST_NAMES:
                known |= names
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_for_ever, name="duebox-redis-wakeup", daemon=True)
                self._thread.start()
        self._rung.set()

    def _forget_thread(self) -> None:
        """Reset after a fork, which has none of the threads of its parent."""
        self._lock = threading.Lock()
        self._rung, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        self._waiting = {}
        self._thread = None
        self._away = False

    def _leave(self) -> None:
        """Give the thread a moment when a process ends right after a commit."""
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
        except Exception as error:  # a dead thread would never send again
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


wakeups = RedisWakeup()


LISTEN_SECONDS = 2.0
"""A connection that was silent for this long is checked with a ping."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class RedisListener:
    """Calls `wake` for each message, and whenever it has connected: something may have been missed before.

    It does not matter if Redis is down: the worker polls anyway.
    """

    def __init__(self, wake: Callable[[], None], using: str) -> None:
        self.connected = False
        self._wake = wake
        self._using = using
        self._failures = 0
        self._stopping = threading.Event()
        self._pubsub: Any = None
        self._thread = threading.Thread(target=self._listen_until_stopped, name="duebox-redis-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for the thread, which may be waiting for Redis."""
        self._stopping.set()

    def _listen_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except Exception as error:  # the library may raise anything when a connection breaks
                pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
                if self._failures == 0 and not self._stopping.is_set():
                    logger.warning("cannot listen to Redis; polling: %s", error or type(error).__name__)
                self._failures += 1
                self._stopping.wait(pause)

    def _listen(self) -> None:
        with client(2 * LISTEN_SECONDS).pubsub() as pubsub:
            pubsub.subscribe(place(self._using, "wake"))
            try:
                asked = False
                while not self._stopping.is_set():
                    message = pubsub.get_message(timeout=LISTEN_SECONDS)
                    if message is None and asked:
                        raise TimeoutError("Redis does not answer a ping")
                    asked = message is None
                    if asked:
                        pubsub.ping()
                    else:
                        self._take(message["type"])
            finally:
                self.connected = False

    def _take(self, kind: str) -> None:
        if kind == "subscribe":
            self.connected, self._failures = True, 0
            logger.info("listening to Redis")
        if kind in ("subscribe", "message"):
            self._wake()


def wake_workers(using: str) -> None:
    """Events were committed."""
    wakeups.wake(using)


def wake_for_schedules(using: str, names: frozenset[Name]) -> None:
    """The worker that updates the mirror looks up the schedules again; a sleeping worker may have to fire one soon."""
    wakeups.wake(using, names)


class WorkerRedis:
    """Listens for wake-ups and updates the mirror, each in a thread; deliveries need neither."""

    def __init__(self, wake: Callable[[], None], using: str) -> None:
        self.listener = RedisListener(wake, using)
        self.mirroring = Mirroring(using)

    def start(self) -> None:
        self.listener.start()
        self.mirroring.start()

    def stop(self) -> None:
        self.listener.stop()
        self.mirroring.stop()


def tier_of(wake: Callable[[], None], using: str) -> WorkerRedis | None:
    """None if Redis is not configured, or its package is not installed."""
    if not conf().REDIS_URL:
        return None
    if missing := what_is_missing():
        logger.warning("Redis cannot be used; polling: %s", missing)
        return None
    return WorkerRedis(wake, using)
