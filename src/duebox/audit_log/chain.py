"""The hash chain of the audit log, and its keys: each entry is hashed with a key that the database does not know, and
linked to the one before it.

    entry_hash = HMAC(key, text of the entry)
    hash = HMAC(key, hash of the link before + sequence + entry_hash)
    erasure = HMAC(key, "erased" + entry_hash + text that is left), where the values of an entry were erased

A person who can write to the tables but does not know the key can break the chain, but cannot repair it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Literal

from django.conf import settings
from django.utils.encoding import force_bytes

from duebox.conf import conf
from duebox.store.audit import Head, Link, Seal

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


START = bytes(32)
"""The hash before the first link."""
NEW = Head(0, START, 0, START, None, b"")
"""The head before anything was sealed."""


def linked(head: Head, entries: Iterable[tuple[int, bytes]]) -> list[Seal]:
    """The links of entries, each given as its id and its text, behind a head."""
    key, sequence, previous, seals = current("chain"), head.sequence, head.hash, []
    for id, text in entries:
        sequence += 1
        of_entry = hmac.digest(key, text, "sha256")
        previous = _hash(key, previous, sequence, of_entry)
        seals.append(Seal(sequence, id, of_entry, previous))
    return seals


def follows(link: Link, previous: bytes, secrets: Iterable[bytes]) -> bool:
    """Whether a link is the one that was made behind the one before it."""
    return any(hmac.compare_digest(_hash(key, previous, link.sequence, link.entry_hash), link.hash) for key in secrets)


def is_of(link: Link, text: bytes, secrets: Iterable[bytes]) -> bool:
    """Whether a link was made of an entry with this text, or of one that had values which were erased since."""
    return any(
        hmac.compare_digest(hmac.digest(key, text, "sha256"), link.entry_hash)
        or (link.erasure is not None and hmac.compare_digest(_erasure(key, link, text), link.erasure))
        for key in secrets
    )


def erasure_of(link: Link, text: bytes) -> bytes:
    """The hash of what is left of an entry whose values were erased. It needs the key, so nobody who can only write to
    the tables can change an entry and call that an erasure."""
    return _erasure(current("chain"), link, text)


def _erasure(key: bytes, link: Link, text: bytes) -> bytes:
    return hmac.digest(key, b"erased" + link.entry_hash + text, "sha256")


def signed(head: Head) -> Head:
    return head._replace(signature=_signature(current("head"), head))


def is_signed(head: Head) -> bool:
    """Whether only Duebox has changed the head."""
    if head == NEW:
        return True
    return any(hmac.compare_digest(_signature(key, head), head.signature) for key in every("head"))


def _hash(key: bytes, previous: bytes, sequence: int, of_entry: bytes) -> bytes:
    return hmac.digest(key, previous + sequence.to_bytes(8) + of_entry, "sha256")


def _signature(key: bytes, head: Head) -> bytes:
    moment = head.sealed_at.timestamp() if head.sealed_at else ""
    parts = (head.sequence, head.hash.hex(), head.pruned_sequence, head.pruned_hash.hex(), moment)
    return hmac.digest(key, " ".join(map(str, parts)).encode(), "sha256")
