"""The secrets of the audit log: one for each purpose, none of them the setting itself."""

from __future__ import annotations

import hmac
from typing import Literal

from django.conf import settings
from django.utils.encoding import force_bytes

from duebox.conf import conf

Purpose = Literal["chain", "head", "value"]


def current(purpose: Purpose) -> bytes:
    """The key to write with: made of AUDIT_KEY, or of SECRET_KEY where that is not set."""
    return every(purpose)[0]


def every(purpose: Purpose) -> list[bytes]:
    """The key to write with, then those that older entries may have been written with."""
    return [hmac.digest(force_bytes(secret), f"duebox.audit.{purpose}".encode(), "sha256") for secret in _secrets()]


def _secrets() -> list[str | bytes]:
    own = conf().AUDIT_KEY
    # With a key of its own the log no longer trusts the project's: who knows that one must not be able to write here.
    older = () if own else settings.SECRET_KEY_FALLBACKS
    return [own or settings.SECRET_KEY, *conf().AUDIT_KEY_FALLBACKS, *older]
