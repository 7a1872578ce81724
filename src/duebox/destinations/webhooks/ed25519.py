"""Asymmetric signatures with ed25519 (`v1a`). Needs the package `cryptography`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from duebox.exceptions import InvalidSecret, NotReady

try:
    from cryptography.exceptions import InvalidSignature as Wrong
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError as error:
    raise NotReady("Keys that begin with whsk_ or whpk_ need another package; run: pip install cryptography") from error

SEED = PUBLIC_BYTES = 32


@dataclass(frozen=True, slots=True)
class Public:
    """The public key, which verifies."""

    key: Ed25519PublicKey = field(repr=False)
    version: str = "v1a"

    def check(self, content: bytes) -> Callable[[bytes], bool]:
        def is_right(signature: bytes) -> bool:
            try:
                self.key.verify(signature, content)
            except Wrong:
                return False
            return True

        return is_right


@dataclass(frozen=True, slots=True)
class Private:
    """The private key, which signs."""

    key: Ed25519PrivateKey = field(repr=False)
    version: str = "v1a"

    def sign(self, content: bytes) -> bytes:
        return self.key.sign(content)

    def check(self, content: bytes) -> Callable[[bytes], bool]:
        return Public(self.key.public_key()).check(content)


def private_key(raw: bytes) -> Private:
    """The private key from 32 bytes of seed and 32 bytes of its public key."""
    if len(raw) != SEED + PUBLIC_BYTES:
        raise InvalidSecret(
            f"A key that begins with whsk_ has {SEED + PUBLIC_BYTES} bytes, this one {len(raw)}; copy it again."
        )
    key = Ed25519PrivateKey.from_private_bytes(raw[:SEED])
    if key.public_key().public_bytes_raw() != raw[SEED:]:
        raise InvalidSecret("The two halves of a key that begins with whsk_ do not belong together; copy it again.")
    return Private(key)


def public_key(raw: bytes) -> Public:
    if len(raw) != PUBLIC_BYTES:
        raise InvalidSecret(
            f"A key that begins with whpk_ has {PUBLIC_BYTES} bytes, this one {len(raw)}; copy it again."
        )
    return Public(Ed25519PublicKey.from_public_bytes(raw))
