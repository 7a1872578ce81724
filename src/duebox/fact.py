"""An event as code sees it: what `emit` gives back and what a handler receives. Immutable."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID


class FactRow(NamedTuple):
    """The columns in the order that the statements of the store return them.

    Identities and times stay as text and numbers until somebody looks: a handler that needs three fields does not
    pay for fourteen (building them all costs 5 µs, a third of what the worker spends on an event).
    """

    id: str
    type: str
    version: int
    occurred: float
    aggregate_type: str
    aggregate_id: str
    organization: str
    correlation: str
    causation: str | None
    actor: str
    producer: str
    key: str | None
    data: str
    metadata: str


class Fact:
    """Something that happened. Its `data` is a fresh dict on first access, yours to read."""

    __slots__ = ("_data", "_row", "attempt", "created")

    def __init__(self, row: FactRow | tuple[Any, ...], *, attempt: int = 0, created: bool = True) -> None:
        self._row = row
        self._data: dict[str, Any] | None = None
        self.attempt = attempt
        """In a handler: which try this is, the first being 1."""
        self.created = created
        """False when `emit` found the first event under the same key and stored nothing."""

    @property
    def row(self) -> FactRow:
        """All columns by name, as they are stored."""
        row = self._row
        return row if isinstance(row, FactRow) else FactRow(*row)

    @property
    def id(self) -> UUID:
        return UUID(self._row[0])

    @property
    def type(self) -> str:
        return self._row[1]

    @property
    def version(self) -> int:
        return self._row[2]

    @property
    def occurred_at(self) -> datetime:
        return datetime.fromtimestamp(self._row[3], UTC)

    @property
    def about(self) -> tuple[str, str] | None:
        """The aggregate as (type, id), or None."""
        return (self._row[4], self._row[5]) if self._row[4] else None

    @property
    def organization(self) -> str | None:
        return self._row[6] or None

    @property
    def correlation_id(self) -> str:
        return self._row[7]

    @property
    def causation_id(self) -> UUID | None:
        return UUID(self._row[8]) if self._row[8] else None

    @property
    def actor(self) -> str | None:
        return self._row[9] or None

    @property
    def producer(self) -> str:
        return self._row[10]

    @property
    def key(self) -> str | None:
        """The idempotency key it was emitted under."""
        return self._row[11]

    @property
    def data(self) -> dict[str, Any]:
        if self._data is None:
            self._data = json.loads(self._row[12])
        return self._data

    def as_version(self, version: int, data: str) -> Fact:
        """The same event as a later version tells it."""
        row = FactRow(*self._row)._replace(version=version, data=data)
        return Fact(row, attempt=self.attempt, created=self.created)

    def forget(self) -> None:
        """Read the data anew on next access: a handler that ran before may have changed the dict."""
        self._data = None

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(json.loads(self._row[13]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and other._row[0] == self._row[0]

    def __hash__(self) -> int:
        return hash(self._row[0])

    def __repr__(self) -> str:
        about = f" about {self._row[4]}:{self._row[5]}" if self._row[4] else ""
        return f"<{self._row[1]} v{self._row[2]}{about} {self._row[0]}>"
