"""The answer to a webhook, read within a deadline and no further than it is of use."""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from duebox.destinations.webhooks.responses import Response

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SHOWN_BYTES = 2048
READ_BYTES = 64 * 1024
"""A longer body is not read to its end; the connection is closed instead."""
MOST_BYTES = 2 * READ_BYTES
"""Of all of an answer: its head, its body, and what is written between and behind the pieces of the body."""


class Answer(NamedTuple):
    status: int
    text: str
    """The beginning of the body."""
    retry_after: str | None = None


class Incoming(io.RawIOBase):
    """Bytes from a socket until the deadline, however slowly they come, and no more than an answer may have."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = sock, deadline
        self.count = 0
        """How many have come."""
        self.ended = False
        """The socket is not asked any more."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.ended:
            return 0
        if self.count >= MOST_BYTES:
            raise HTTPException("The answer is too long.")
        self.sock.settimeout(left(self.deadline))
        count = self.sock.recv_into(memoryview(buffer)[: MOST_BYTES - self.count])
        self.count += count
        return count

    def makefile(self, *args: Any) -> io.BufferedReader:
        """As `Response` asks a socket for it."""
        return io.BufferedReader(self)


def left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def send(sock: socket.socket, request: bytes, deadline: float) -> None:
    """Piece by piece: behind TLS `sendall` would grant each piece the whole time."""
    rest = memoryview(request)
    while rest:
        sock.settimeout(left(deadline))
        rest = rest[sock.send(rest) :]


def read(incoming: Incoming) -> tuple[Answer, bool]:
    """The answer, and whether the connection can be used again. The status decides; a body that breaks off, drips or
    does not end changes nothing."""
    response = Response(cast("socket.socket", incoming), method="POST")
    reader = response.fp
    response.begin()
    length = response.length
    body = _body(response, SHOWN_BYTES if length is not None and length > READ_BYTES else READ_BYTES)
    is_whole = response.length == 0 or response.isclosed()
    answer = Answer(response.status, _text(response, body), response.fields.get("retry-after"))
    return answer, is_whole and not response.will_close and not _has_more(incoming, reader)


def _has_more(incoming: Incoming, reader: io.BufferedReader) -> bool:
    """Whether something came behind the answer; who uses the connection next would take it for theirs."""
    incoming.ended = True
    return bool(reader.peek(1))


def _body(response: Response, most: int) -> bytes:
    body = bytearray()
    try:
        while len(body) < most and (piece := response.read1(most - len(body))):
            body += piece
    except (OSError, HTTPException):
        response.will_close = True
    return bytes(body)


def _text(response: Response, body: bytes) -> str:
    encoding = response.fields.get("content-encoding")
    if encoding and encoding.lower() != "identity":  # nobody asked for it, and what it unfolds to may be huge
        return f"({len(body)} bytes in an encoding that was not asked for)"
    return body[:SHOWN_BYTES].decode(errors="replace")
