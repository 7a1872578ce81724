"""What an event is: types, naming, schemas, compatibility, public view, documents."""

from __future__ import annotations

from duebox.contracts.reading import read
from duebox.contracts.types import EventType, declared, event


class _Words(dict[str, object]):
    """Words of JSON Schema that can stand inside a union, which wants to hash what it holds."""

    __hash__ = object.__hash__  # type: ignore[assignment]


PII = _Words({"x-pii": True})
"""Marks a field as personal data: `email: Annotated[str, PII]`. It never passes into a public event."""

__all__ = ["PII", "EventType", "declared", "event", "read"]
