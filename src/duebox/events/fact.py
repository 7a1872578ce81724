"""`Fact`, an immutable event: `emit` returns it and a handler receives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring as _quoted
from typing import Any, NamedTuple
from uuid import UUID

EXPIRES_AT = "duebox.expires_at"
"""The metadata key for the time at which an event expires. Most events do not expire, so there is no column for it."""
EXPIRES_AFTER = "duebox.expires_after"
"""The metadata key of a schedule for how many seconds after the due time its events expire."""
PAYLOAD_REMOVED_AT = "duebox.payload_removed_at"
"""The metadata key for the time at which the payload was removed: by an erasure, or by retention, which leaves the
idempotency key."""


def expiry_in(metadata: Mapping[str, Any]) -> datetime | None:
    """When an event with these metadata expires; None if it does not, or if the value cannot be parsed."""
    try:
        found = datetime.fromisoformat(metadata[EXPIRES_AT])
    except (KeyError, TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def due_in(metadata: Mapping[str, Any]) -> datetime | None:
    """The time for which a schedule fired an event with these metadata; None if no schedule did."""
    try:
        found = datetime.fromisoformat(metadata["schedule"]["due"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


class Aggregate(NamedTuple):
    """What an event is about, such as `shop.order` 42."""

    type: str
    id: str

    def __str__(self) -> str:
        return f"{self.type}:{self.id}"


class Actor(NamedTuple):
    """Who caused an event: a user, a service, an API key."""

    type: str
    id: str
    email: str | None = None

    def as_dict(self) -> dict[str, str]:
        found = {"type": self.type, "id": self.id}
        return {**found, "email": self.email} if self.email else found

    def to_json(self) -> str:
        """JSON spelled as PostgreSQL spells a jsonb value: the hash chain of the audit log relies on it."""
        email = f', "email": {_quoted(self.email)}' if self.email else ""
        return f'{{"id": {_quoted(self.id)}, "type": {_quoted(self.type)}{email}}}'

    def __str__(self) -> str:
        return f"{self.type}:{self.id}"


class FactRow(NamedTuple):
    """The columns in the order that the statements of the store return them.

    Identities and times stay text and numbers until they are accessed: a handler that needs three fields does not pay
    for fourteen (building them all costs 5 µs, a third of what the worker spends on an event).
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
    actor: str | None
    """As JSON."""
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
        """In a handler, the number of this attempt, starting with 1."""
        self.created = created
        """False if `emit` found an earlier event with the same idempotency key and stored nothing."""

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
    def about(self) -> Aggregate | None:
        """The aggregate, with `type` and `id`, or None."""
        return Aggregate(self._row[4], self._row[5]) if self._row[4] else None

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
    def actor(self) -> Actor | None:
        """Who caused it, with `type`, `id` and `email`, or None."""
        return Actor(**json.loads(self._row[9])) if self._row[9] else None

    @property
    def producer(self) -> str:
        return self._row[10]

    @property
    def idempotency_key(self) -> str | None:
        return self._row[11]

    @property
    def data(self) -> dict[str, Any]:
        if self._data is None:
            self._data = json.loads(self._row[12])
        return self._data

    def as_version(self, version: int, data: str) -> Fact:
        """The same event with the data of a later version."""
        row = FactRow(*self._row)._replace(version=version, data=data)
        return Fact(row, attempt=self.attempt, created=self.created)

    def forget(self) -> None:
        """Parse the data again on next access: an earlier handler may have changed the dict."""
        self._data = None

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(json.loads(self._row[13]))

    @property
    def expires_at(self) -> datetime | None:
        """A delivery that has not started by then is not run; None if the event does not expire."""
        metadata = self._row[13]
        return expiry_in(self.metadata) if metadata and EXPIRES_AT in metadata else None

    @property
    def scheduled_for(self) -> datetime | None:
        """The time for which a schedule fired it; None if no schedule did."""
        metadata = self._row[13]
        return due_in(self.metadata) if metadata and '"schedule"' in metadata else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and other._row[0] == self._row[0]

    def __hash__(self) -> int:
        return hash(self._row[0])

    def __repr__(self) -> str:
        about = f" about {self._row[4]}:{self._row[5]}" if self._row[4] else ""
        return f"<{self._row[1]} v{self._row[2]}{about} {self._row[0]}>"
