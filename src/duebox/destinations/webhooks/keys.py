"""Secrets and keys of webhooks, as bytes and as the text that people pass on."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from duebox.exceptions import InvalidSecret

SECRET, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
SHORTEST, LONGEST = 24, 64
NEW = 32
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class Key(Protocol):
    """Whoever can say whether a signature is right."""

    @property
    def version(self) -> str: ...

    def check(self, content: bytes) -> Callable[[bytes], bool]: ...


class SigningKey(Key, Protocol):
    """Whoever can make one."""

    def sign(self, content: bytes) -> bytes: ...


class Shared(NamedTuple):
    """A secret that both sides know: HMAC with SHA-256."""

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
        raise InvalidSecret("Secrets are given as a list of at least one; write [secret].")
    return texts


def _signing_key(text: str) -> SigningKey:
    if _is_text(text) and text.startswith(PUBLIC):
        raise InvalidSecret(
            f"A key that begins with {PUBLIC} is public and cannot sign; use its {PRIVATE} counterpart."
        )
    if _is_text(text) and text.startswith(PRIVATE):
        from duebox.destinations.webhooks.asymmetric import private_key

        return private_key(decoded(text, PRIVATE))
    return _shared(text)


def _verifying_key(text: str) -> Key:
    if _is_text(text) and text.startswith(PUBLIC):
        from duebox.destinations.webhooks.asymmetric import public_key

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
        raise InvalidSecret("A secret is base64, and this one has lost a part; copy it again.") from None


def _is_text(text: object) -> bool:
    return isinstance(text, str)
