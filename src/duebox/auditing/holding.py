"""Hold rows and the heads of their organizations until the transaction ends, without a deadlock over the two.

Neither order will do. Who holds a row and waits for the head meets one who has recorded something and wants that row.
Who holds the head and waits for a row meets one who has locked that row and wants to record it. So nobody waits for
one of them while holding the other: what cannot be had at once is waited for first, with empty hands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from django.db import transaction

from duebox.store import audits

Found = TypeVar("Found", bound=Collection[Any], covariant=True)


class Reads(Protocol[Found]):
    def __call__(self, *, skip_locked: bool) -> Found:
        """Lock the rows and give them; all of them, or those that are free."""


class _Busy(Exception):
    """Another transaction has it; a savepoint lets go of the rest."""


def held(using: str, heads: Collection[str], read: Reads[Found], lacks: Callable[[Collection[Any]], bool]) -> Found:
    """What `read` gives once it has all rows, with the heads. `lacks` tells whether there are more rows than found."""
    while True:
        with suppress(_Busy), transaction.atomic(using=using):
            audits.take(using, heads)
            found = read(skip_locked=True)
            if lacks(found):
                raise _Busy
            return found
        with suppress(_Busy), transaction.atomic(using=using):
            found = read(skip_locked=False)
            if not audits.take_free(using, heads):
                raise _Busy
            return found
