"""Encryption of stored values: the secrets of endpoints, and their headers, which may contain credentials.

The first key encrypts, all of them decrypt. Without DUEBOX['WEBHOOK_KEYS'] they are derived from SECRET_KEY and its
fallbacks, which still decrypt after WEBHOOK_KEYS is set: `duebox endpoints reencrypt` replaces the old keys.
"""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.encoding import force_bytes

from duebox.conf import SHORTEST_KEY, conf
from duebox.exceptions import InvalidSecret

_PURPOSE = b"duebox.webhooks.endpoints"


def encrypted(text: str) -> str:
    """The encrypted text; an empty text stays empty."""
    return _fernet().encrypt(text.encode()).decode() if text else ""


def decrypted(token: str, what: str = "secret") -> str:
    try:
        return _fernet().decrypt(token.encode()).decode() if token else ""
    except InvalidToken:
        raise InvalidSecret(
            f"The {what} of an endpoint cannot be decrypted: the key is missing; add it to DUEBOX['WEBHOOK_KEYS'], or "
            "to SECRET_KEY_FALLBACKS if it was derived from SECRET_KEY."
        ) from None


def readable(token: str) -> bool:
    try:
        decrypted(token)
    except InvalidSecret:
        return False
    return True


def reencrypted(token: str) -> str:
    """The same value, encrypted with the newest key."""
    return encrypted(decrypted(token))


def _fernet() -> MultiFernet:
    given = conf().WEBHOOK_KEYS
    for key in given:
        if not isinstance(key, str) or len(key) < SHORTEST_KEY:
            raise InvalidSecret(
                f"DUEBOX['WEBHOOK_KEYS'] must contain only texts of at least {SHORTEST_KEY} characters; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
    secrets = (*given, settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return _made_of(tuple(force_bytes(secret) for secret in secrets))


@lru_cache(maxsize=4)
def _made_of(secrets: tuple[bytes, ...]) -> MultiFernet:
    return MultiFernet([Fernet(_derived(secret)) for secret in secrets])


def _derived(secret: bytes) -> bytes:
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret)
    return base64.urlsafe_b64encode(key)
