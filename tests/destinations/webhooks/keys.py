"""New ed25519 keys."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_pair() -> tuple[str, str]:
    """A private key and its public key, as text."""
    key = Ed25519PrivateKey.generate()
    seed, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    return f"whsk_{base64.b64encode(seed + public).decode()}", f"whpk_{base64.b64encode(public).decode()}"
