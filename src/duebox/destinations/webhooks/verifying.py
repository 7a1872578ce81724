"""Verify what was received, as Standard Webhooks 1.0.0 says."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from duebox.destinations.webhooks.keys import Key, verifying_keys
from duebox.destinations.webhooks.signing import ID, SIGNATURE, TIMESTAMP, is_id, signed_content
from duebox.exceptions import InvalidSignature

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

TOLERANCE = 300
MOST_SIGNATURES = 32
_SECONDS = re.compile(r"(0|[1-9][0-9]{0,14})", re.ASCII)


class Received(NamedTuple):
    """What is known of a webhook that was verified."""

    id: str
    """The same at every attempt: remember it, and skip what was handled before."""
    timestamp: int
    """When this attempt was made, in seconds since 1970."""


def verify(
    headers: Headers,
    body: bytes,
    secrets: Sequence[str],
    *,
    now: float | None = None,
    tolerance: int = TOLERANCE,
) -> Received:
    """Make sure that a webhook comes from somebody who knows one of the secrets, and that it is not an old one.

    Give the body as it came, before anything reads it. Whatever is wrong with the webhook raises InvalidSignature:
    answer it with 401. A secret of your own that is none raises InvalidSecret.
    """
    keys = verifying_keys(secrets)
    if not isinstance(body, bytes):
        raise InvalidSignature(f"the body is {type(body).__name__}, not bytes")
    given = _wanted(headers)
    id, timestamp = given[ID], _seconds(given[TIMESTAMP])
    if not is_id(id):
        raise InvalidSignature(f"{ID} is not visible ASCII without a dot")
    _check_age(timestamp, time.time() if now is None else now, tolerance)
    if not _any_right(keys, signed_content(id, timestamp, body), given[SIGNATURE]):
        raise InvalidSignature("no signature is right")
    return Received(id, timestamp)


def _wanted(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    for name, value in ((_text(name).lower(), _text(value)) for name, value in pairs):
        if name in found:
            raise InvalidSignature(f"{name} is there twice")
        if name in (ID, TIMESTAMP, SIGNATURE):
            found[name] = value
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not found.get(name):
            raise InvalidSignature(f"{name} is missing")
    return found


def _text(text: object) -> str:
    if isinstance(text, bytes):
        return text.decode("latin-1")
    return text if isinstance(text, str) else ""


def _seconds(text: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise InvalidSignature(f"{TIMESTAMP} is not whole seconds")
    return int(text)


def _check_age(timestamp: int, now: float, tolerance: int) -> None:
    if timestamp < now - tolerance:
        raise InvalidSignature(f"{TIMESTAMP} is more than {tolerance} seconds ago")
    if timestamp > now + tolerance:
        raise InvalidSignature(f"{TIMESTAMP} is more than {tolerance} seconds ahead")


def _any_right(keys: Sequence[Key], content: bytes, header: str) -> bool:
    checks = [(key.version, key.check(content)) for key in keys]
    right = False
    for version, signature in _signatures(header):
        for wanted, is_right in checks:
            # To the end in any case: how long it takes says nothing about which one was right.
            right |= wanted == version and is_right(signature)
    return right


def _signatures(header: str) -> Iterator[tuple[str, bytes]]:
    """The signatures of a header. A part that is not one is skipped: it may be from a later version."""
    for part in header.split(" ")[:MOST_SIGNATURES]:
        version, _, text = part.partition(",")
        try:
            yield version, base64.b64decode(text.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            continue
