"""Emit: facts are written on the caller's own connection, in the caller's own transaction."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models, transaction

from duebox import clock, tracing
from duebox.conf import Settings, conf
from duebox.context import Origin, handling, origin
from duebox.exceptions import DueboxError, IdempotencyConflict, InvalidEvent, NotReady
from duebox.fact import Fact, FactRow
from duebox.ids import uuid7
from duebox.payload import encode
from duebox.promise import contract_of, refuse_incomplete, with_twins
from duebox.signals import emitted
from duebox.store.statements import number_array, run, text_array
from duebox.subscribers import OUTSIDE, Subscriber, receivers_for, receivers_of

About = models.Model | tuple[str, object] | None
OnConflict = Literal["error", "first"]

_TEXT_LIMIT = 500
# Control characters, line separators and halves of surrogates; a joined emoji or a hard space may stay.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """One event for `emit_many`; the fields are those of `emit`."""

    type: str | object
    data: Mapping[str, Any] | None = None
    about: About = None
    organization: object = None
    key: str | None = None
    actor: object = None
    version: int | None = None
    occurred_at: datetime | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    metadata: Mapping[str, Any] | None = None


def emit(
    type: str | object,
    data: Mapping[str, Any] | None = None,
    *,
    about: About = None,
    organization: object = None,
    key: str | None = None,
    on_conflict: OnConflict = "error",
    actor: object = None,
    version: int | None = None,
    occurred_at: datetime | None = None,
    correlation_id: str | None = None,
    causation_id: UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
    using: str | None = None,
) -> Fact:
    """Store an event and the deliveries to its subscribers: committed with your transaction, or not at all.

    Give an instance of a class under `@duebox.event`, or a name with data; both are held to the declared schema.
    The same `key` for the same type stores nothing and gives the first event back with `created=False`; if it
    differs, `IdempotencyConflict` is raised, or with `on_conflict="first"` the first one is taken. One round trip.
    """
    new = New(
        type=type,
        data=data,
        about=about,
        organization=organization,
        key=key,
        actor=actor,
        version=version,
        occurred_at=occurred_at,
        correlation_id=correlation_id,
        causation_id=causation_id,
        metadata=metadata,
    )
    return emit_many([new], on_conflict=on_conflict, using=using)[0]


def emit_many(events: Iterable[New], *, on_conflict: OnConflict = "error", using: str | None = None) -> list[Fact]:
    """Store many events in one round trip; the facts come back in the order given."""
    settings = ready_settings()
    if on_conflict not in ("error", "first"):
        raise InvalidEvent(f"on_conflict={on_conflict!r} must be 'error' or 'first'.")
    rows = [fact_row(event, settings) for event in events]
    if not rows:
        return []
    current = handling.get()
    alias = using or (current.using if current else settings.DATABASE)
    every = with_twins(rows)
    with _all_or_nothing(rows, alias):
        stored = insert(every, alias)
        firsts = _firsts([row for row in rows if row.id not in stored], alias, on_conflict)
    announce([Fact(row) for row in every if row.id in stored], alias)
    return [Fact(row) if row.id in stored else firsts[row.type, row.key] for row in rows]


def _all_or_nothing(rows: Sequence[FactRow], alias: str) -> AbstractContextManager[None]:
    """Outside of any transaction a key that was used before must not leave the others stored."""
    several = len(rows) > 1 and any(row.key is not None for row in rows)
    if several and not connections[alias].in_atomic_block:
        return transaction.atomic(using=alias)
    return nullcontext()


def announce(facts: Iterable[Fact], alias: str) -> None:
    """Tell the receivers of the `emitted` signal."""
    for fact in facts if emitted.receivers else ():
        emitted.send_robust(sender=Fact, fact=fact, using=alias)


async def aemit(type: str | object, data: Mapping[str, Any] | None = None, **options: Any) -> Fact:
    """`emit` for async code. Takes the same options; runs in the thread that holds your database connection."""
    return await sync_to_async(emit, thread_sensitive=True)(type, data, **options)


def ready_settings() -> Settings:
    """The settings, or an error with the repair where Duebox cannot write yet."""
    try:
        ready = apps.is_installed("duebox")
    except Exception as error:
        raise NotReady(
            f"Django is not set up yet ({error}); call django.setup() first, or emit from inside the project."
        ) from error
    if not ready:
        raise NotReady("Duebox is not installed in this project; add 'duebox' to INSTALLED_APPS and migrate.")
    try:
        return conf()
    except TypeError as error:
        raise ImproperlyConfigured(f"DUEBOX cannot be read ({error}); run: manage.py check") from error


def fact_row(event: New, settings: Settings, *, to_come: bool = False) -> FactRow:
    """An event as it is stored, or the error that says what is wrong with it. One that is to come has no identity
    yet, nor a story that it belongs to, unless it is given one."""
    name, version, data, kind = contract_of(event, settings)
    current, came = handling.get(), None if to_come else origin.get()
    cause = current.fact if current else None
    new_id = "" if to_come else str(uuid7())
    aggregate_type, aggregate_id = aggregate_of(event.about)
    organization = identity(event.organization, "organization")
    if kind is not None:
        refuse_incomplete(kind, aggregate_type, organization)
    limit, depth = settings.PAYLOAD_LIMIT_BYTES, settings.PAYLOAD_DEPTH
    metadata = event.metadata if to_come else _with_trace(event.metadata)
    # The correlation id runs through everything that one first request or event caused.
    story = cause.correlation_id if cause else came.correlation_id if came else new_id
    return FactRow(
        id=new_id,
        type=name,
        version=version,
        occurred=_occurred(event.occurred_at),
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        organization=organization,
        correlation=identity(event.correlation_id or story or None, "correlation_id"),
        causation=_causation(event.causation_id, cause),
        actor=identity(event.actor, "actor") or _actor(cause, came),
        producer=settings.PRODUCER,
        key=identity(event.key, "key") if event.key is not None else None,
        data=encode(data, limit=limit, depth=depth, check=kind.check if kind else None),
        metadata=encode(metadata, root="metadata", limit=limit, depth=depth),
    )


def _actor(cause: Fact | None, came: Origin | None) -> str:
    if cause is not None:
        return cause.actor or ""
    return came.who().actor if came else ""


def _with_trace(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """With the trace that this belongs to, where there is one."""
    born = tracing.traceparent()
    return {tracing.KEY: born, **(given or {})} if born and isinstance(given, Mapping | None) else given


def aggregate_of(about: About) -> tuple[str, str]:
    match about:
        case None:
            return "", ""
        case models.Model():
            return about._meta.model_name or "", identity(about, "about")
        case (str(kind), key) if kind and key is not None:
            return identity(kind, "about"), identity(key, "about")
    raise InvalidEvent(f"about={about!r} must be a saved model instance or a pair like ('member', 42).")


def identity(value: object, name: str) -> str:
    """The text by which something is known, or an error that names the argument."""
    if value is None:
        return ""
    if isinstance(value, models.Model):
        if value.pk is None:
            raise InvalidEvent(f"{name}={value!r} has no primary key yet; save it before you emit.")
        value = value.pk
    text = str(value)
    if not text or len(text) > _TEXT_LIMIT or _UNPRINTABLE.search(text):
        raise InvalidEvent(f"{name}={text[:80]!r} must be 1 to {_TEXT_LIMIT} printable characters.")
    return text


def _causation(given: UUID | None, cause: Fact | None) -> str | None:
    if given is None:
        return str(cause.id) if cause else None
    try:
        return str(UUID(str(given)))
    except ValueError:
        raise InvalidEvent(f"causation_id={given!r} must be a UUID, the id of an event.") from None


def _occurred(moment: datetime | None) -> float:
    if moment is None:
        moved = clock.override()
        return moved.timestamp() if moved else time.time()
    if not isinstance(moment, datetime):
        raise InvalidEvent(f"occurred_at={moment} must be an aware datetime.")
    if moment.tzinfo is None:
        raise InvalidEvent(f"occurred_at={moment} is naive; make it aware with django.utils.timezone.")
    return moment.timestamp()


def insert(rows: Sequence[FactRow], alias: str) -> set[str]:
    """Store facts with the deliveries to their subscribers; gives the ids of those whose key was new."""
    routes = [(row.id, each.name, stream_of(row, each)) for row in rows for each in receivers_for(row)]
    params: dict[str, Any] = {
        "route_event": text_array(route[0] for route in routes),
        "route_subscriber": text_array(route[1] for route in routes),
        "route_stream": text_array(route[2] for route in routes),
        "now": None,
    }
    if len(rows) == 1:
        [(created,)] = run("emit_one", alias, {**params, **rows[0]._asdict()})
        return {rows[0].id} if created else set()
    columns = zip(FactRow._fields, zip(*rows, strict=True), strict=True)
    params |= {name: _column(values) for name, values in columns}
    return {row[0] for row in run("emit_many", alias, params)}


def _column(values: Sequence[Any]) -> str:
    return text_array(values) if isinstance(values[0], str | None) else number_array(values)


def refuse_unroutable(type: str, aggregate_type: str) -> None:
    """An event without an aggregate has no place in an order per aggregate."""
    for subscriber in () if aggregate_type else receivers_of(type):
        if subscriber.ordered and not subscriber.name.startswith(OUTSIDE):
            raise InvalidEvent(
                f"Subscriber {subscriber.name!r} takes {type!r} in order per aggregate, but the event has none; "
                "emit it with about=..."
            )


def stream_of(row: FactRow, subscriber: Subscriber) -> str | None:
    """The order that a delivery stands in, if its subscriber asks for one."""
    if not subscriber.ordered:
        return None
    refuse_unroutable(row.type, row.aggregate_type)
    if not row.aggregate_type:  # a destination takes everything that its routes let through, in no order
        return None
    return f"{row.aggregate_type}:{row.aggregate_id}"


def _firsts(repeated: Sequence[FactRow], alias: str, on_conflict: OnConflict) -> dict[tuple[str, str | None], Fact]:
    """The events that hold the keys of those that were not stored."""
    if not repeated:
        return {}
    found = run("find_by_key", alias, {"type": [row.type for row in repeated], "key": [row.key for row in repeated]})
    firsts = {(row[1], row[11]): Fact(FactRow(*row), created=False) for row in found}
    for row in repeated:
        first = firsts.get((row.type, row.key))
        if first is None:
            raise DueboxError(f"The first event {row.type!r} with key {row.key!r} was removed meanwhile; emit again.")
        differs = _differences(Fact(row), first)
        if differs and on_conflict == "error":
            raise IdempotencyConflict(row.type, row.key or "", differs, first.id)
    return firsts


def _differences(new: Fact, first: Fact) -> list[str]:
    return [name for name in ("data", "about", "organization", "version") if getattr(new, name) != getattr(first, name)]
