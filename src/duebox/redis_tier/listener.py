"""Hears the bell. For a worker whose connection to PostgreSQL cannot LISTEN, as behind a pooler in transaction mode."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from duebox.redis_tier.connection import client, place

logger = logging.getLogger("duebox.redis")

LISTEN_SECONDS = 2.0
"""A connection on which nothing comes for so long is asked whether it is still there."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class RedisListener:
    """Calls `wake` for each message, and whenever it has connected: something may have been missed before.

    Redis away is no trouble: the worker polls, as it does anyway.
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
            except Exception as error:  # its library raises anything when a connection breaks at the wrong moment
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
