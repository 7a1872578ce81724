"""HTTP for webhooks: pooled connections to checked addresses, one request and one response within a deadline.

Connections are those of urllib3, with the address pinned. Response bodies are read by `http.client`, but not the
headers: its parser for mail headers takes longer than the rest of a response. If the end of a response is ambiguous,
the connection is closed.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from http.client import BadStatusLine, HTTPException, HTTPResponse, LineTooLong, RemoteDisconnected
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.wait import wait_for_read

from duebox.destinations.webhooks.url_guard import Guard, Pinned, Route, Target
from duebox.exceptions import Undelivered

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of the call, or raise its exception; TimeoutError if it takes longer. Each call has its own
    thread: the next call must not wait for one that hangs."""
    ended: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            ended.put((call(), None))
        except BaseException as error:
            ended.put((None, error))

    threading.Thread(target=run, name="duebox-resolver", daemon=True).start()
    try:
        value, error = ended.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


LONGEST_LINE = 16 * 1024
MOST_LINES = 100
MOST_INTERIM = 10
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?:[ \t][^\r\n]*)?\r?\n")
_NO_BODY = (204, 304)


class Response(HTTPResponse):
    fields: dict[str, str]
    """Headers by name in lower case; repeated ones are joined by commas."""

    def begin(self) -> None:
        for _ in range(MOST_INTERIM):
            minor, self.status = self._status_line()
            self.fields = self._read_fields()
            if self.status >= 200:
                break
        else:
            raise HTTPException("Too many interim answers.")
        self.chunk_left = None
        encoding, length = self.fields.get("transfer-encoding"), self.fields.get("content-length")
        self.chunked = encoding is not None and encoding.lower() == "chunked"
        known = length is not None and encoding is None and length.isascii() and length.isdigit() and len(length) < 16
        self.length = int(length) if known and length is not None else None
        has_end = self.chunked != (self.length is not None) and not (self.chunked and length is not None)
        if self.status in _NO_BODY:
            # A body that is announced nevertheless may follow, and would be read as the next response.
            has_end = encoding is None and (length is None or self.length == 0)
            self.length, self.chunked = 0, False
        self.will_close = not (has_end and minor == b"1" and "close" not in self.fields.get("connection", "").lower())

    def flush(self) -> None:
        """There is nothing to write. The socket may be closed already when the response is garbage collected."""

    def _close_conn(self) -> None:
        """The body has ended. The caller still checks for bytes after it."""
        self.fp = None  # type: ignore[assignment]

    def _status_line(self) -> tuple[bytes, int]:
        line = self._line()
        if not line:
            raise RemoteDisconnected("closed without an answer")
        found = _STATUS.fullmatch(line)
        if found is None:
            raise BadStatusLine("not HTTP/1")
        return found[1], int(found[2])

    def _read_fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        for _ in range(MOST_LINES):
            line = self._line()
            if line in (b"\r\n", b"\n"):
                return fields
            if not line.endswith(b"\n"):
                raise HTTPException("The head breaks off.")
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        raise HTTPException("Too many headers.")

    def _line(self) -> bytes:
        line = self.fp.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise LineTooLong("head")
        return bytes(line)


SHOWN_BYTES = 2048
READ_BYTES = 64 * 1024
"""A longer body is not read to its end; the connection is closed instead."""
MOST_BYTES = 2 * READ_BYTES
"""The limit of a whole response: its headers, its body, and the chunk headers and trailers."""


class Answer(NamedTuple):
    status: int
    text: str
    """The beginning of the body."""
    retry_after: str | None = None


class Incoming(io.RawIOBase):
    """Reads bytes from a socket until the deadline, however slowly they come, up to the limit of a response."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = sock, deadline
        self.count = 0
        """The number of bytes that were received."""
        self.ended = False
        """The socket is not read any more."""

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
        """Called by `Response` as on a socket."""
        return io.BufferedReader(self)


def left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def send(sock: socket.socket, request: bytes, deadline: float) -> None:
    """Send in parts: with TLS, `sendall` would apply the timeout to each part."""
    rest = memoryview(request)
    while rest:
        sock.settimeout(left(deadline))
        rest = rest[sock.send(rest) :]


def read(incoming: Incoming) -> tuple[Answer, bool]:
    """The response, and whether the connection can be used again. The status decides; a body that is incomplete, slow
    or endless changes nothing."""
    response = Response(cast("socket.socket", incoming), method="POST")
    reader = response.fp
    response.begin()
    length = response.length
    body = _body(response, SHOWN_BYTES if length is not None and length > READ_BYTES else READ_BYTES)
    is_whole = response.length == 0 or response.isclosed()
    answer = Answer(response.status, _text(response, body), response.fields.get("retry-after"))
    return answer, is_whole and not response.will_close and not _has_more(incoming, reader)


def _has_more(incoming: Incoming, reader: io.BufferedReader) -> bool:
    """Whether there are bytes after the response; the next request would read them as its response."""
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
    if encoding and encoding.lower() != "identity":  # it was not requested, and the decoded body may be huge
        return f"({len(body)} bytes in an encoding that was not requested)"
    return body[:SHOWN_BYTES].decode(errors="replace")


if TYPE_CHECKING:
    _Connection = HTTPConnection
else:
    _Connection = object

CONNECT_SECONDS = 5.0


def connected(route: Route, context: ssl.SSLContext, deadline: float) -> socket.socket:
    """A socket to one of the addresses of a route; with https, the certificate must match the host."""
    target = route.target
    connection: _Pinned
    if target.scheme == "https":
        connection = _Secure(target.host, target.port, ssl_context=context)
    else:
        connection = _Plain(target.host, target.port)
    connection.addresses, connection.deadline = route.addresses, deadline
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise
    assert connection.sock is not None
    return connection.sock


class _Pinned(_Connection):
    """Connects to checked addresses only, without a DNS lookup and without proxies from the environment."""

    addresses: tuple[Pinned, ...]
    deadline: float

    def _new_conn(self) -> socket.socket:
        failed: OSError = TimeoutError()
        for each in self.addresses:
            left = self.deadline - time.monotonic()
            if left <= 0:
                break
            try:
                return _reached(each, min(left, CONNECT_SECONDS), self.deadline)
            except OSError as error:
                failed = error
        raise failed


class _Plain(_Pinned, HTTPConnection):
    pass


class _Secure(_Pinned, HTTPSConnection):
    pass


def _reached(pinned: Pinned, seconds: float, deadline: float) -> socket.socket:
    sock = socket.socket(pinned.family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect((pinned.address, pinned.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(max(0.001, deadline - time.monotonic()))
    except BaseException:
        sock.close()
        raise
    return sock


def made_context(ca_file: str = "") -> ssl.SSLContext:
    """Trusts the authorities of the system, and those in a file."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


OLDEST_SECONDS = 60.0
MOST_PER_PLACE = 32
SWEEP_SECONDS = 5.0

Place = tuple[str, str, int]
"""Scheme, host and port."""


class Line(NamedTuple):
    sock: socket.socket
    born: float

    def is_usable(self, now: float) -> bool:
        """Whether it is neither too old nor closed by the server. One with unexpected bytes is not used either."""
        return now - self.born < OLDEST_SECONDS and not self._has_more() and not wait_for_read(self.sock, timeout=0)

    def _has_more(self) -> bool:
        """TLS decrypts whole records: the rest of one is not in the socket any more."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0


class ConnectionPool:
    """Idle connections, shared by threads; a connection that was taken is used by one thread only."""

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
        """Remove and return connections that are too old."""
        self._swept = now
        old = [line for lines in self._lines.values() for line in lines if now - line.born >= OLDEST_SECONDS]
        for place, lines in list(self._lines.items()):
            lines[:] = [line for line in lines if now - line.born < OLDEST_SECONDS]
            if not lines:
                del self._lines[place]
        return old


class HttpClient:
    """Sends a request again only if a pooled connection turned out to be closed, follows no redirects, and decodes
    nothing. Shared by threads."""

    def __init__(self, guard: Guard, context: ssl.SSLContext, timeout: float) -> None:
        self._guard, self._context, self._timeout = guard, context, timeout
        self._pool = ConnectionPool()

    def exchange(self, target: Target, request: bytes) -> Answer:
        """Send a request and return the response. Raises Undelivered, or Blocked if the host resolves to an address
        that is not allowed."""
        try:
            return self._exchange(target, request, time.monotonic() + self._timeout)
        except (OSError, HTTPException) as error:
            raise Undelivered(_described(error, target.host, self._timeout)) from error

    def close(self) -> None:
        self._pool.close()

    def _exchange(self, target: Target, request: bytes, deadline: float) -> Answer:
        place = target[:3]
        pooled = self._pool.take(place)
        if pooled is not None:
            answer = self._tried(pooled, target, request, deadline)
            if answer is not None:
                return answer
        addresses = within(left(deadline), lambda: self._guard.resolve(target.host, target.port))
        sock = connected(Route(target, addresses), self._context, deadline)
        return self._asked(Line(sock, time.monotonic()), target, request, deadline)

    def _tried(self, line: Line, target: Target, request: bytes, deadline: float) -> Answer | None:
        """None if the server had closed the connection before it received the request."""
        incoming = Incoming(line.sock, deadline)
        try:
            return self._asked(line, target, request, deadline, incoming)
        except TimeoutError:
            raise
        except OSError:  # RemoteDisconnected is one of them
            if incoming.count:
                raise
            return None

    def _asked(
        self, line: Line, target: Target, request: bytes, deadline: float, incoming: Incoming | None = None
    ) -> Answer:
        reusable = False
        try:
            send(line.sock, request, deadline)
            answer, reusable = read(incoming or Incoming(line.sock, deadline))
        finally:
            if reusable:
                self._pool.put(target[:3], line)
            else:
                line.sock.close()
        return answer


def _described(error: Exception, host: str, timeout: float) -> str:
    """The error in words, without any text from the server."""
    match error:
        case TimeoutError():
            return f"{host} did not answer within {timeout:g} s."
        case socket.gaierror():
            return f"{host} cannot be resolved ({error.strerror})."
        case ssl.SSLCertVerificationError():
            return f"The certificate of {host} is not accepted ({error.verify_message})."
        case ssl.SSLError():
            return f"TLS with {host} failed ({error.reason or type(error).__name__})."
        case ConnectionResetError() | BrokenPipeError():
            return f"{host} closed the connection without an answer."
        case OSError():
            return f"{host} cannot be reached ({error.strerror or error})."
    return f"{host} did not answer in HTTP ({type(error).__name__})."
