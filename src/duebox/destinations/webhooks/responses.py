"""The head of an HTTP answer, read for the few fields that matter here.

`http.client` reads each head with a parser for mail, which takes longer than everything else that an answer needs. Its
bodies are used as they are. Whatever is ambiguous about where an answer ends makes the connection end with it.
"""

from __future__ import annotations

import re
from http.client import BadStatusLine, HTTPException, HTTPResponse, LineTooLong, RemoteDisconnected

LONGEST_LINE = 16 * 1024
MOST_LINES = 100
MOST_INTERIM = 10
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?:[ \t][^\r\n]*)?\r?\n")
_NO_BODY = (204, 304)


class Response(HTTPResponse):
    fields: dict[str, str]
    """By name in lower case; what came several times is joined by commas."""

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
            # One that is said nevertheless may follow, and would pass for the next answer.
            has_end = encoding is None and (length is None or self.length == 0)
            self.length, self.chunked = 0, False
        self.will_close = not (has_end and minor == b"1" and "close" not in self.fields.get("connection", "").lower())

    def flush(self) -> None:
        """There is nothing to write. The socket below may be closed already when this is forgotten."""

    def _close_conn(self) -> None:
        """The body has ended. Whoever reads goes on to look at what came after it."""
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
