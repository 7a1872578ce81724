"""A wire that can be cut: stands between a destination and the server it talks to."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from types import TracebackType

PASS, AWAY, HANG, MUTE = "pass", "away", "hang", "mute"


class Proxy:
    """Forwards to a port of this machine.

    `mode` may be changed at any time: PASS; AWAY closes what is open and whatever comes; HANG takes what is sent and
    passes nothing on; MUTE passes on what is sent and swallows the answer, then closes: the other side has it, and
    nobody here knows.
    """

    def __init__(self, target: int) -> None:
        self.mode = PASS
        self._target = target
        self._open: set[socket.socket] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def set(self, mode: str) -> None:
        """Change the mode; AWAY also cuts what is open."""
        self.mode = mode
        if mode == AWAY:
            self.cut()

    def cut(self) -> None:
        for each in list(self._open):
            _close(each)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            if self.mode == AWAY:
                _close(here)
                continue
            threading.Thread(target=self._carry, args=[here], daemon=True).start()

    def _carry(self, here: socket.socket) -> None:
        there = socket.create_connection(("127.0.0.1", self._target))
        self._open |= {here, there}
        try:
            while self._step(here, there):
                pass
        except (OSError, ValueError):
            pass
        finally:
            self._open -= {here, there}
            _close(here)
            _close(there)

    def _step(self, here: socket.socket, there: socket.socket) -> bool:
        ready, _, _ = select.select([here, there], [], [], 0.05)
        for each in ready:
            if self.mode == HANG:
                if each is here and not here.recv(65536):
                    return False
                continue
            sent = each.recv(65536)
            if not sent or (self.mode == MUTE and each is there):
                return False
            (there if each is here else here).sendall(sent)
        return True


def _close(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
