"""Connections that stay open for the next webhook to the same place, for a while: a name that moves takes effect."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import defaultdict
from typing import NamedTuple

from urllib3.util.wait import wait_for_read

OLDEST_SECONDS = 60.0
MOST_PER_PLACE = 32
SWEEP_SECONDS = 5.0

Place = tuple[str, str, int]
"""Scheme, host and port."""


class Line(NamedTuple):
    sock: socket.socket
    born: float

    def is_usable(self, now: float) -> bool:
        """Neither old, nor closed by the other side. One that says something unasked is not trusted either."""
        return now - self.born < OLDEST_SECONDS and not self._has_more() and not wait_for_read(self.sock, timeout=0)

    def _has_more(self) -> bool:
        """TLS decrypts whole records: what is left of one is not in the socket any more."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0


class Kept:
    """Shared by threads; who takes a line has it alone."""

    def __init__(self) -> None:
        self._lines: dict[Place, list[Line]] = defaultdict(list)
        self._lock = threading.Lock()
        self._swept = time.monotonic()

    def take(self, place: Place) -> Line | None:
        while True:
            with self._lock:
                lines = self._lines.get(place)
                if not lines:
                    return None
                line = lines.pop()
            if line.is_usable(time.monotonic()):
                return line
            line.sock.close()

    def put(self, place: Place, line: Line) -> None:
        now = time.monotonic()
        with self._lock:
            spare = self._spare(now) if now - self._swept > SWEEP_SECONDS else []
            if len(self._lines[place]) < MOST_PER_PLACE:
                self._lines[place].append(line)
            else:
                spare.append(line)
        for each in spare:
            each.sock.close()

    def close(self) -> None:
        with self._lock:
            lines = [line for each in self._lines.values() for line in each]
            self._lines.clear()
        for line in lines:
            line.sock.close()

    def _spare(self, now: float) -> list[Line]:
        """Those that nobody came for in time."""
        self._swept = now
        old = [line for lines in self._lines.values() for line in lines if now - line.born >= OLDEST_SECONDS]
        for place, lines in list(self._lines.items()):
            lines[:] = [line for line in lines if now - line.born < OLDEST_SECONDS]
            if not lines:
                del self._lines[place]
        return old
