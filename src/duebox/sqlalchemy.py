"""Emit from SQLAlchemy: the event is committed with your transaction, or not at all.

For services that share the database with a Django project but do not use Django: this module does not need
django.setup(). The SQL function `duebox_emit` stores the event; a worker of the project validates and delivers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack
from uuid import UUID

from sqlalchemy import Connection, DateTime, Integer, Interval, Select, Text, Uuid, cast, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session, scoped_session

from duebox.context import tracing
from duebox.contracts import class_schemas, event_types
from duebox.contracts.event_types import EventType
from duebox.events.emit import surroundings
from duebox.events.fact import Actor
from duebox.events.identities import aggregate_of, identity
from duebox.events.payload import encode
from duebox.exceptions import InvalidEvent, UndeclaredEvent

if TYPE_CHECKING:  # it needs greenlet, which a service without asyncio may not have
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

__all__ = ["aemit", "emission", "emit"]

Id = str | int | UUID

# The workers enforce the limits of the project; this module only refuses values that JSON cannot represent.
LIMIT, DEPTH = 2**30, 500


class Options(TypedDict, total=False):
    """The arguments of `duebox.emit`."""

    about: tuple[str, Id] | None
    organization: Id | None
    actor: Id | Actor | Mapping[str, str] | None
    idempotency_key: str | None
    on_conflict: Literal["error", "first"]
    version: int | None
    occurred_at: datetime | None
    correlation_id: str | None
    causation_id: UUID | None
    metadata: Mapping[str, Any] | None
    producer: str | None
    expires: datetime | timedelta | None


def emit(
    session: Session | scoped_session[Any] | Connection,
    type: str | object,
    data: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> UUID:
    """Store an event on this session or connection, in its transaction, and return the id of the event.

    Pass a name with data, or an instance of a class decorated with `@duebox.event`. A repeated `idempotency_key` for
    the same type stores nothing and returns the id of the first event. If that event differs,
    `sqlalchemy.exc.IntegrityError` is raised, unless `on_conflict="first"` is passed.
    """
    if iscoroutinefunction(session.execute):
        name = session.__class__.__name__
        raise TypeError(f"emit() got an {name}; write: await duebox.sqlalchemy.aemit(session, ...)")
    found: UUID = session.execute(emission(type, data, **options)).scalar_one()
    return found


async def aemit(
    session: AsyncSession | async_scoped_session[Any] | AsyncConnection,
    type: str | object,
    data: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> UUID:
    """`emit` for an AsyncSession or an AsyncConnection."""
    found: UUID = (await session.execute(emission(type, data, **options))).scalar_one()
    return found


def emission(
    type: str | object,
    data: Mapping[str, Any] | None = None,
    *,
    about: tuple[str, Id] | None = None,
    organization: Id | None = None,
    actor: Id | Actor | Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
    on_conflict: Literal["error", "first"] = "error",
    version: int | None = None,
    occurred_at: datetime | None = None,
    correlation_id: str | None = None,
    causation_id: UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
    producer: str | None = None,
    expires: datetime | timedelta | None = None,
) -> Select[Any]:
    """The statement that emits an event when it is executed, for code that executes its statements itself."""
    name, version, payload = _contract(type, data, version)
    about_type, about_id = aggregate_of(about)
    correlation, who = surroundings(actor)
    born = tracing.traceparent()
    around = {tracing.KEY: born, **(metadata or {})} if born else metadata
    if occurred_at is not None and occurred_at.utcoffset() is None:
        raise InvalidEvent(f"occurred_at={occurred_at} is naive; give it a time zone, as in datetime.now(UTC).")
    if isinstance(expires, datetime) and expires.utcoffset() is None:
        raise InvalidEvent(f"expires={expires} is naive; give it a time zone, as in datetime.now(UTC).")
    # A timedelta counts from the database's clock, which all processes share.
    until = func.now() + literal(expires, Interval) if isinstance(expires, timedelta) else expires
    # SQLAlchemy has no named arguments for SQL functions: these follow the order of the arguments of duebox_emit.
    return select(
        func.duebox_emit(
            literal(name, Text),
            _json(payload),
            literal(about_type, Text),
            literal(about_id, Text),
            literal(identity(organization, "organization"), Text),
            _json(who),
            literal(correlation_id or correlation, Text),
            literal(idempotency_key, Text),
            literal(version, Integer),
            literal(occurred_at, DateTime(timezone=True)),
            _json(encode(around, limit=LIMIT, depth=DEPTH, root="metadata")),
            literal(causation_id, Uuid()),
            literal(producer, Text),
            literal(on_conflict, Text),
            literal(until, DateTime(timezone=True)) if until is None or isinstance(until, datetime) else until,
            type_=Uuid(),
        )
    )


def _contract(type: str | object, data: Mapping[str, Any] | None, version: int | None) -> tuple[str, int, str]:
    """The name, the version and the data as JSON; validated if this process declares the event type."""
    kind: EventType | None
    if isinstance(type, str):
        known = event_types.versions_of(type)
        kind = known.get(version or max(known)) if known else None
        name, version = type, version or (kind.version if kind else 1)
    else:
        kind = event_types.type_of(type.__class__)
        if kind is None:
            raise UndeclaredEvent(
                f"The event is a {type.__class__.__name__}; emit a name, or an instance of a class under @duebox.event."
            )
        if data is not None or version not in (None, kind.version):
            raise InvalidEvent(f"A {type.__class__.__name__} carries its own data and version; leave both out.")
        name, version, data = kind.name, kind.version, class_schemas.data_of(type)
    return name, version, encode(data, limit=LIMIT, depth=DEPTH, check=kind.check if kind else None)


def _json(text: str | None) -> Any:
    return cast(literal(text, Text), JSONB)
