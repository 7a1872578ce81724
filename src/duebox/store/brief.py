"""Transactions of the engine's own threads, which have more to do than to wait for a lock that a stranger holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, transaction
from psycopg.errors import LockNotAvailable

from duebox.store.statements import run

PATIENCE_SECONDS = 0.5


class Busy(Exception):
    """Somebody else holds it; nothing was done."""


@contextmanager
def brief(using: str, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """A transaction that ends with `Busy` where it would have to wait longer than this for a lock."""
    try:
        with transaction.atomic(using=using):
            run("lock_patience", using, {"milliseconds": int(seconds * 1000)})
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise Busy from error
        raise
