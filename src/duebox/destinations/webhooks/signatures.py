"""Signatures of Standard Webhooks 1.0.0: keys, signing and verification, with shared secrets or ed25519."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from duebox.exceptions import InvalidSecret, InvalidSignature

SECRET, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
SHORTEST, LONGEST = 24, 64
NEW = 32
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class Key(Protocol):
    """A key that verifies signatures."""

    @property
    def version(self) -> str: ...

    def check(self, content: bytes) -> Callable[[bytes], bool]: ...


class SigningKey(Key, Protocol):
    """A key that signs."""

    def sign(self, content: bytes) -> bytes: ...


class Shared(NamedTuple):
    """A shared secret: HMAC with SHA-256."""

    secret: bytes
    version: str = "v1"

    def sign(self, content: bytes) -> bytes:
        return hmac.digest(self.secret, content, "sha256")

    def check(self, content: bytes) -> Callable[[bytes], bool]:
        return partial(hmac.compare_digest, self.sign(content))

    def __repr__(self) -> str:
        return "Shared(…)"


def new_secret() -> str:
    """A new secret, to be shown once and stored encrypted."""
    return SECRET + base64.b64encode(random.token_bytes(NEW)).decode()


def signing_keys(texts: Sequence[str]) -> list[SigningKey]:
    """The keys of secrets: `whsec_…`, the same without the prefix, or `whsk_…`."""
    return [_signing_key(text) for text in _listed(texts)]


def verifying_keys(texts: Sequence[str]) -> list[Key]:
    """The keys of secrets or public keys: `whsec_…`, the same without the prefix, or `whpk_…`."""
    return [_verifying_key(text) for text in _listed(texts)]


def _listed(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str | bytes) or not texts:
        raise InvalidSecret("Secrets must be a list of at least one; write [secret].")
    return texts


def _signing_key(text: str) -> SigningKey:
    if _is_text(text) and text.startswith(PUBLIC):
        raise InvalidSecret(
            f"A key that begins with {PUBLIC} is public and cannot sign; use its {PRIVATE} counterpart."
        )
    if _is_text(text) and text.startswith(PRIVATE):
        from duebox.destinations.webhooks.ed25519 import private_key

        return private_key(decoded(text, PRIVATE))
    return _shared(text)


def _verifying_key(text: str) -> Key:
    if _is_text(text) and text.startswith(PUBLIC):
        from duebox.destinations.webhooks.ed25519 import public_key

        return public_key(decoded(text, PUBLIC))
    return _signing_key(text)


def _shared(text: str) -> Shared:
    secret = decoded(text, SECRET)
    if not SHORTEST <= len(secret) <= LONGEST:
        raise InvalidSecret(
            f"A secret has {SHORTEST} to {LONGEST} bytes, this one {len(secret)}; make one with new_secret()."
        )
    return Shared(secret)


def decoded(text: str, prefix: str) -> bytes:
    """The bytes of base64, with or without the prefix and the padding."""
    body = text.removeprefix(prefix) if _is_text(text) else ""
    if not _BASE64.fullmatch(body):
        raise InvalidSecret(f"A secret is {prefix} and base64, on one line and without spaces; this is something else.")
    bare = body.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        raise InvalidSecret("A secret is base64, and this one is incomplete; copy it again.") from None


def _is_text(text: object) -> bool:
    return isinstance(text, str)


ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
MOST_SECRETS = 2
# A dot in the id would allow its end to be read as the timestamp, and the timestamp as the body.
_ID = re.compile(r"[!-\-/-~]{1,255}")


def sign(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> str:
    """The value of the header `webhook-signature`.

    The timestamp is that of the attempt, in seconds, and the body the exact bytes that are sent. While a secret is
    being rotated pass both, the new one first: the receiver may still have the old one.
    """
    content = signed_content(id, timestamp, body)
    keys = signing_keys(secrets)
    if len(keys) > MOST_SECRETS:
        raise InvalidSecret(
            f"At most {MOST_SECRETS} secrets sign, these are {len(keys)}; end the older rotation first."
        )
    return signature(content, keys)


def signature(content: bytes, keys: Sequence[SigningKey]) -> str:
    """The same with parsed keys: parsing secrets takes longer than signing."""
    return " ".join([f"{key.version},{base64.b64encode(key.sign(content)).decode()}" for key in keys])


def signed_headers(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The three headers of a webhook."""
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: sign(id, timestamp, body, secrets)}


def signed_content(id: str, timestamp: int, body: bytes) -> bytes:
    if not is_id(id):
        raise ValueError(f"{id!r} cannot be the id of a webhook; use visible ASCII without a dot, such as a UUID.")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
        raise ValueError(f"{timestamp!r} is not a timestamp; give whole seconds since 1970.")
    if not isinstance(body, bytes):
        raise TypeError(f"The body is {type(body).__name__}; give the bytes that are sent.")
    return b"%s.%d.%s" % (id.encode(), timestamp, body)


def is_id(id: object) -> bool:
    return isinstance(id, str) and _ID.fullmatch(id) is not None


Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

TOLERANCE = 300
MOST_SIGNATURES = 32
_SECONDS = re.compile(r"(0|[1-9][0-9]{0,14})", re.ASCII)


class Received(NamedTuple):
    """A verified webhook."""

    id: str
    """The same at every attempt: use it to ignore duplicates."""
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
    """Verify that a webhook is signed with one of the secrets, and that it is not too old.

    Pass the unchanged bytes of the body. Any problem with the webhook raises InvalidSignature: respond with 401. An
    invalid secret of your own raises InvalidSecret.
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
        raise InvalidSignature("no signature matches")
    return Received(id, timestamp)


def _wanted(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    for name, value in ((_text(name).lower(), _text(value)) for name, value in pairs):
        if name in found:
            raise InvalidSignature(f"{name} is repeated")
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
            # Always compare all of them, so that the time does not reveal which one matched.
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
