"""Proxies before PostgreSQL that do what networks and poolers do."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

_NOTIFICATION = b"A"
PLAIN = {"sslmode": "disable", "gssencmode": "disable"}
"""OPTIONS for a connection through a proxy."""


class Proxy:
    """Passes everything, until it is told otherwise."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self._entry = dict(entry)
        self._open: list[socket.socket] = []
        self._swallowed: set[socket.socket] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> int:
        """Of the connections that are open now nothing arrives any more, and none of them is closed. How many."""
        self._swallowed.update(self._open)
        return len(self._swallowed) // 2

    def close(self) -> None:
        """Ends every connection, and accepts none any more."""
        # A thread that waits in accept() keeps the socket open.
        for each in (self._server, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = self._connect()
            self._open += [client, server]
            for target, pair in ((self._pass_all, (client, server)), (self._pass_back, (server, client))):
                threading.Thread(target=self._until_closed, args=[target, *pair], daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = self._entry["HOST"], int(self._entry["PORT"] or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(host) / f".s.PGSQL.{port}"))
        return server

    def _until_closed(self, target: Any, source: socket.socket, sink: socket.socket) -> None:
        try:
            with suppress(OSError, ValueError):
                target(source, sink)
        finally:
            if source not in self._swallowed:
                for each in (source, sink):
                    # To close a socket that another thread reads from would not end the connection.
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                    each.close()

    def _pass_all(self, source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65_536):
            if source not in self._swallowed:
                sink.sendall(data)

    def _pass_back(self, source: socket.socket, sink: socket.socket) -> None:
        self._pass_all(source, sink)


class DeafProxy(Proxy):
    """Passes everything but notifications, as a pooler in transaction mode does."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.dropped = 0
        super().__init__(entry)

    def _pass_back(self, source: socket.socket, sink: socket.socket) -> None:
        """Each message of the server is a letter, its length, and its body."""
        with source.makefile("rb") as stream:
            while len(head := stream.read(5)) == 5:
                body = stream.read(int.from_bytes(head[1:]) - 4)
                if head[:1] == _NOTIFICATION:
                    self.dropped += 1
                else:
                    sink.sendall(head + body)
