"""A real receiver of webhooks: an HTTP server in threads that remembers what it got and answers as a test wants."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple


class Got(NamedTuple):
    path: str
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes
    connection: int
    """Which connection it came over."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class Reply(NamedTuple):
    status: int = 200
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()


class Receiver:
    """`reply` is asked for each request; by default everything is taken."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.got: list[Got] = []
        self.numbers = count(1)
        self.reply: Callable[[Got], Reply] = lambda got: Reply()
        self.server = _Server(("127.0.0.1", 0), self._handler())
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port: int = self.server.server_address[1]
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.server.cut()
        self._thread.join(10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.number = next(receiver.numbers)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                got = Got(self.path, headers, body, self.number)
                reply = receiver.reply(got)
                receiver.got.append(got)
                lines = [f"HTTP/1.1 {reply.status} Whatever", f"Content-Length: {len(reply.body)}"]
                lines += [f"{name}: {value}" for name, value in reply.headers]
                self.wfile.write("\r\n".join([*lines, "", ""]).encode() + reply.body)

            def log_message(self, *args: object) -> None: ...

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with five, some of many that come at once wait for seconds

    def __init__(self, *args: Any) -> None:
        self._open: list[socket.socket] = []
        super().__init__(*args)

    def get_request(self) -> Any:
        found = super().get_request()
        self._open.append(found[0])
        return found

    def handle_error(self, *args: object) -> None:
        """A sender that goes away in the middle is what some tests are about."""

    def cut(self) -> None:
        """Close every connection that is open, from this side."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()


class Scripted:
    """A server below HTTP: each connection is handed to a function with its socket, in a thread."""

    def __init__(self, play: Callable[[socket.socket], None]) -> None:
        self._play = play
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.connections = 0

    def __enter__(self) -> Scripted:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._run, args=[sock], daemon=True).start()

    def _run(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            self._play(sock)


def read_request(sock: socket.socket) -> bytes:
    """A whole request, head and body; nothing when the other side has gone."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = sock.recv(65536)
        if not piece:
            return b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.split(b"\r\n")]
    length = next(int(value) for name, _, value in lines if name.lower() == b"content-length")
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body
