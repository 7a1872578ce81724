"""Many rows at once: what is recorded of them is gathered, and written together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from django.db import models

from duebox.auditing.record import write
from duebox.auditing.snapshots import Snapshot
from duebox.store.audits import Entry

Known = Mapping[Any, Snapshot]


@dataclass(slots=True)
class _Gathered:
    model: type[models.Model]
    known: Known
    entries: list[Entry] = field(default_factory=list)


_gathered: ContextVar[_Gathered | None] = ContextVar("duebox_audit_gathered", default=None)


@contextmanager
def gathering(model: type[models.Model], known: Known, using: str) -> Iterator[None]:
    """Hold back what is recorded in this block until its end. The rows of a model are known already."""
    token = _gathered.set(here := _Gathered(model, known))
    try:
        yield
    finally:
        _gathered.reset(token)
    write(here.entries, using)


def known_already(model: type[models.Model], pk: Any) -> Snapshot | None:
    here = _gathered.get()
    return here.known.get(pk) if here and issubclass(model, here.model) else None


def put(entries: Sequence[Entry], using: str) -> None:
    """Write now, or at the end of the block that gathers."""
    if here := _gathered.get():
        here.entries.extend(entries)
    else:
        write(entries, using)
