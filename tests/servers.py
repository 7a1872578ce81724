"""Django behind a real socket, and behind a bare ASGI call: what a client sends arrives as it was sent."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from typing import Any, NamedTuple

from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

Header = tuple[bytes, bytes]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def wsgi_server() -> Iterator[Callable[..., Answer]]:
    """Gives a function that asks the server, header lines as bytes."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.set_app(WSGIHandler())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def ask(path: str, *headers: Header) -> Answer:
        lines = [b"%b: %b" % header for header in (*headers, (b"Host", b"testserver"), (b"Connection", b"close"))]
        request = b"\r\n".join([f"GET {path} HTTP/1.1".encode(), *lines, b"", b""])
        with socket.create_connection(server.server_address[:2], timeout=10) as connection:
            connection.sendall(request)
            return _answer(b"".join(iter(lambda: connection.recv(65536), b"")))

    try:
        yield ask
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def _answer(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, _, fields = head.partition(b"\r\n")
    return Answer(int(status.split()[1]), dict(BytesParser().parsebytes(fields).items()), body)


async def ask_asgi(handler: ASGIHandler, path: str, *headers: Header) -> Answer:
    """One request, as an ASGI server would pass it on, headers unread."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower(), value) for name, value in (*headers, (b"host", b"testserver"))],
        "client": ("192.0.2.7", 4711),
    }
    sent: list[dict[str, Any]] = []
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.Event().wait()  # the client stays until it has its answer
        asked = True
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    return Answer(
        sent[0]["status"],
        {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )
