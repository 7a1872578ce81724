"""A webhook as bytes: the body that others read, and the request that carries it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from json.encoder import encode_basestring
from typing import NamedTuple

from duebox.destinations.envelope import correlation, occurred_at
from duebox.destinations.webhooks.event_types import seen
from duebox.destinations.webhooks.keys import SigningKey
from duebox.destinations.webhooks.signing import ID, SIGNATURE, TIMESTAMP, signature, signed_content
from duebox.destinations.webhooks.urls import PORTS, Target
from duebox.fact import FactRow
from duebox.headers import CORRELATION_ID


def body_of(row: FactRow) -> bytes:
    """What the organization gets. The data is not read for it: it goes out as it was stored."""
    return (
        f'{{"id":"{row.id}","type":"{seen(row.type)}","version":{row.version},"timestamp":"{occurred_at(row)}",'
        f'"workspace_id":{encode_basestring(row.organization)},"data":{row.data}}}'
    ).encode()


class Stationery(NamedTuple):
    """What is the same in every request to an endpoint, made once."""

    head: bytes
    keys: Sequence[SigningKey]

    def request(self, row: FactRow, timestamp: int) -> bytes:
        """All of a request; what is signed are the bytes of its body."""
        body = body_of(row)
        signed = signature(signed_content(row.id, timestamp, body), self.keys)
        given = correlation(row)
        story = f"{CORRELATION_ID}: {given}\r\n" if _may_travel(given) else ""
        last = (
            f"{story}{ID}: {row.id}\r\n{TIMESTAMP}: {timestamp}\r\n{SIGNATURE}: {signed}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return b"%b%b%b" % (self.head, last.encode("ascii"), body)

    def __repr__(self) -> str:
        return "Stationery(…)"


def stationery(target: Target, keys: Sequence[SigningKey], headers: Mapping[str, str]) -> Stationery:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {_host(target)}",
        f"User-Agent: {user_agent()}",
        "Content-Type: application/json",
        "Accept: */*",
        "Accept-Encoding: identity",
        *_lines(headers),
    ]
    return Stationery("".join(f"{line}\r\n" for line in lines).encode("ascii"), keys)


def _lines(headers: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}: {value}" for name, value in headers.items())


def _host(target: Target) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.port == PORTS[target.scheme] else f"{name}:{target.port}"


def _may_travel(correlation: str) -> bool:
    """A correlation id may be any printable text; a header holds ASCII."""
    return bool(correlation) and correlation.isascii() and correlation.isprintable()


@cache
def user_agent() -> str:
    try:
        return f"Duebox/{version('duebox')}"
    except PackageNotFoundError:
        return "Duebox"
