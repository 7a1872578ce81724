"""Transactions of the engine's own threads, which have more to do than to wait for a lock that a stranger holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connections, transaction
from psycopg.errors import LockNotAvailable

from duebox.store.statements import run

PATIENCE_SECONDS = 0.5


class Busy(Exception):
    """Somebody else holds it; nothing was done."""


@contextmanager
def brief(using: str, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """A transaction that ends with `Busy` where it would have to wait longer than this for a lock. The transaction
    around it, if there is one, waits as long as before."""
    try:
        is_inner = connections[using].in_atomic_block
        with transaction.atomic(using=using):
            [(before, _)] = run("lock_patience", using, {"timeout": f"{int(seconds * 1000)}ms"})
            yield
            if is_inner:
                run("lock_patience", using, {"timeout": before})
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise Busy from error
        raise
