"""`emit` and `emit_many`: store events on the caller's connection, in the caller's transaction."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from duebox import clock
from duebox.conf import Settings, conf, require_app
from duebox.context import tracing
from duebox.context.current import CallSite, call_site, handling, names_async_form, origin
from duebox.contracts import event_types
from duebox.contracts.enforce import Own, contract_of, refuse_incomplete, with_public_events
from duebox.events import after_commit
from duebox.events.address import is_outside
from duebox.events.fact import EXPIRES_AFTER, EXPIRES_AT, PAYLOAD_REMOVED_AT, Fact, FactRow
from duebox.events.identities import About, actor_of, aggregate_of, identity, uuid7
from duebox.events.outcomes import LONGEST
from duebox.events.payload import encode
from duebox.events.subscribers import Subscriber, receivers_for, receivers_of
from duebox.exceptions import (
    DueboxError,
    IdempotencyConflict,
    InvalidEvent,
    OutsideTransaction,
    OutsideTransactionWarning,
)
from duebox.signals import emitted
from duebox.store.run_sql import number_array, run, text_array

OnConflict = Literal["error", "first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One event for `emit_many`; the fields are those of `emit`."""

    type: str | object
    data: Mapping[str, Any] | None = None
    about: About = None
    organization: object = None
    idempotency_key: str | None = None
    actor: object = None
    version: int | None = None
    occurred_at: datetime | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    metadata: Mapping[str, Any] | None = None
    expires: datetime | timedelta | None = None


@names_async_form
def emit(
    type: str | object,
    data: Mapping[str, Any] | None = None,
    *,
    about: About = None,
    organization: object = None,
    idempotency_key: str | None = None,
    on_conflict: OnConflict = "error",
    actor: object = None,
    version: int | None = None,
    occurred_at: datetime | None = None,
    correlation_id: str | None = None,
    causation_id: UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
    expires: datetime | timedelta | None = None,
    using: str | None = None,
) -> Fact:
    """Store an event and the deliveries to its subscribers: committed with your transaction, or not at all.

    Pass an instance of a class decorated with `@duebox.event`, or a name with data; both are validated against the
    declared schema. A repeated `idempotency_key` for the same type stores nothing and returns the first event with
    `created=False`; if that event differs, `IdempotencyConflict` is raised, unless `on_conflict="first"` is passed.
    With `expires`, a moment or a timedelta from now, a delivery that has not started by then is not run.
    """
    new = NewEvent(
        type=type,
        data=data,
        about=about,
        organization=organization,
        idempotency_key=idempotency_key,
        actor=actor,
        version=version,
        occurred_at=occurred_at,
        correlation_id=correlation_id,
        causation_id=causation_id,
        metadata=metadata,
        expires=expires,
    )
    return _emit_all("emit", [new], on_conflict, using)[0]


@names_async_form
def emit_many(
    events: Iterable[NewEvent | object], *, on_conflict: OnConflict = "error", using: str | None = None
) -> list[Fact]:
    """Store many events in one round trip; the facts are returned in the same order.

    Pass instances of classes decorated with `@duebox.event`, or `NewEvent` to set other arguments of `emit`.
    """
    return _emit_all("emit_many", [_new_event(event) for event in events], on_conflict, using)


def _emit_all(name: str, events: Sequence[NewEvent], on_conflict: OnConflict, using: str | None) -> list[Fact]:
    settings = ready_settings()
    if on_conflict not in ("error", "first"):
        raise InvalidEvent(f"on_conflict={on_conflict!r} must be 'error' or 'first'.")
    if not events:
        return []
    current = handling.get()
    alias = using or (current.using if current else settings.DATABASE)
    rows = [fact_row(event, settings) for event in events]
    check_transaction(name, events, alias, settings)
    every = with_public_events(rows)
    with _all_or_nothing(rows, alias):
        stored = insert(every, alias)
        firsts = _firsts([row for row in rows if row.id not in stored], alias, on_conflict)
    announce([row for row in every if row.id in stored], alias)
    return [Fact(row) if row.id in stored else firsts[row.type, row.key] for row in rows]


def _new_event(given: object) -> NewEvent:
    if isinstance(given, NewEvent):
        return given
    if event_types.type_of(given if isinstance(given, type) else type(given)) is None:
        # Not the value itself, which may contain personal data.
        raise InvalidEvent(
            f"emit_many() got a {type(given).__name__}; "
            "give NewEvent(type=...) or an instance of a class under @duebox.event."
        )
    return NewEvent(type=given)


def emit_to(events: Sequence[tuple[NewEvent, Collection[str]]], *, using: str) -> list[Fact]:
    """Store events for these receivers only, and without public events: the other receivers have theirs already."""
    settings = ready_settings()
    rows = [fact_row(event, settings) for event, _ in events]
    insert(rows, using, only={row.id: names for row, (_, names) in zip(rows, events, strict=True)})
    announce(rows, using)
    return [Fact(row) for row in rows]


def check_transaction(name: str, events: Sequence[NewEvent], alias: str, settings: Settings) -> None:
    """Apply DUEBOX["OUTSIDE_TRANSACTION"] to a call outside of a transaction.

    It does not apply in a handler: its delivery is retried until it returns, so an event that it emits is not lost.
    """
    connection = connections[alias]
    if connection.in_atomic_block or settings.OUTSIDE_TRANSACTION == "allow" or handling.get() is not None:
        return
    if not connection.get_autocommit() or all(isinstance(event.type, Own) for event in events):
        return
    site = call_site.get() or _call_site(name)
    fact = (
        f"duebox.{site.name}() was called outside of a transaction: what you save and what it stores are not committed "
        "together"
    )
    repair = "call it in the block with transaction.atomic() that saves your change"
    if site.name != name:
        repair = "save and emit in a plain function, and call that with await duebox.atomically(...)"
    if settings.OUTSIDE_TRANSACTION == "refuse":
        raise OutsideTransaction(f"{fact}; {repair}.")
    warnings.warn_explicit(
        f"{fact}; {repair}, or set DUEBOX['OUTSIDE_TRANSACTION'] = 'allow'.",
        OutsideTransactionWarning, site.filename, site.line,
        module=site.module.get("__name__"), registry=site.module.setdefault("__warningregistry__", {}),
    )  # fmt: skip


def _call_site(name: str) -> CallSite:
    """The line of the caller: the nearest one that is not in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith("duebox."):
        frame = frame.f_back
    return CallSite(name, frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def _all_or_nothing(rows: Sequence[FactRow], alias: str) -> AbstractContextManager[None]:
    """Outside of a transaction, a conflict of one idempotency key must not leave the other events stored."""
    several = len(rows) > 1 and any(row.key is not None for row in rows)
    if several and not connections[alias].in_atomic_block:
        return transaction.atomic(using=alias)
    return nullcontext()


def announce(stored: Sequence[FactRow], alias: str) -> None:
    """Events were stored: see to what follows their commit, and tell the receivers of the `emitted` signal."""
    if stored:
        after_commit.deliver(alias)
    for row in stored if emitted.receivers else ():
        emitted.send_robust(sender=Fact, fact=Fact(row), using=alias)


def ready_settings() -> Settings:
    """The settings, or an error with the repair if Duebox is not set up yet."""
    require_app()
    try:
        return conf()
    except TypeError as error:
        raise ImproperlyConfigured(f"DUEBOX cannot be read ({error}); run: manage.py check") from error


def fact_row(event: NewEvent, settings: Settings, *, to_come: bool = False) -> FactRow:
    """The row of an event; raises an error if the event is invalid. The event of a schedule has no id yet."""
    name, version, data, kind = contract_of(event, settings)
    current = handling.get()
    cause = current.fact if current else None
    new_id = "" if to_come else str(uuid7())
    correlation, actor = surroundings(event.actor)
    aggregate_type, aggregate_id = aggregate_of(event.about)
    organization = identity(event.organization, "organization")
    if kind is not None:
        refuse_incomplete(kind, aggregate_type, organization)
    limit, depth = settings.PAYLOAD_LIMIT_BYTES, settings.PAYLOAD_DEPTH
    metadata = event.metadata if to_come else _with_trace(event.metadata)
    if event.expires is not None and isinstance(metadata, Mapping | None):
        metadata = {**(metadata or {}), **_expiry(event.expires, to_come)}
    return FactRow(
        id=new_id,
        type=name,
        version=version,
        occurred=_occurred(event.occurred_at),
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        organization=organization,
        correlation=identity(event.correlation_id or None, "correlation_id") or correlation or new_id,
        causation=_causation(event.causation_id, cause),
        actor=actor,
        producer=settings.PRODUCER,
        key=identity(event.idempotency_key, "idempotency_key") if event.idempotency_key is not None else None,
        data=encode(data, limit=limit, depth=depth, check=kind.check if kind else None),
        metadata=encode(metadata, root="metadata", limit=limit, depth=depth),
    )


def surroundings(actor: object = None) -> tuple[str, str | None]:
    """The correlation id and the actor (as JSON) for a new event: those of the event that is being handled, otherwise
    those of the request or job. All events and schedules that one request or event caused share them. `actor` overrides
    the actor."""
    current, came = handling.get(), origin.get()
    cause = current.fact if current else None
    named = actor_of(actor) if actor is not None else None
    if cause is not None:
        return cause.correlation_id, named.to_json() if named else cause.row.actor
    if came is None:
        return "", named.to_json() if named else None
    who = named or came.who().actor
    return came.correlation_id, who.to_json() if who else None


def _with_trace(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The metadata with the current trace parent, if there is one."""
    born = tracing.traceparent()
    return {tracing.KEY: born, **(given or {})} if born and isinstance(given, Mapping | None) else given


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


def _expiry(expires: object, to_come: bool) -> dict[str, Any]:
    """The expiry as stored in the metadata. For the event of a schedule, a timedelta counts from the time it fires."""
    match expires:
        case datetime():
            if expires.tzinfo is None:
                raise InvalidEvent(f"expires={expires} is naive; make it aware with django.utils.timezone.")
            return {EXPIRES_AT: expires.astimezone(UTC).isoformat()}
        case timedelta():
            if not timedelta(0) < expires <= LONGEST:
                wrong = "is longer than a century" if expires > LONGEST else "is not in the future"
                raise InvalidEvent(f"expires={expires} {wrong}; give a timedelta above 0, or leave it out.")
            if to_come:
                return {EXPIRES_AFTER: expires.total_seconds()}
            return {EXPIRES_AT: (clock.now() + expires).isoformat()}
    number = f", such as timedelta(seconds={expires})" if isinstance(expires, int | float) else ""
    raise InvalidEvent(f"expires={expires!r} is not a time; pass an aware datetime or a timedelta{number}.")


def insert(rows: Sequence[FactRow], alias: str, *, only: Mapping[str, Collection[str]] | None = None) -> set[str]:
    """Store facts with the deliveries to their subscribers, or with `only`, to some of them by the id of the fact.
    Return the ids of those whose idempotency key was new."""
    params: dict[str, Any] = {**routes_of(rows, only), "now": None}
    if len(rows) == 1:
        [(created,)] = run("emit_one", alias, {**params, **rows[0]._asdict()})
        return {rows[0].id} if created else set()
    columns = zip(FactRow._fields, zip(*rows, strict=True), strict=True)
    params |= {name: _column(values) for name, values in columns}
    return {row[0] for row in run("emit_many", alias, params)}


def routes_of(rows: Sequence[FactRow], only: Mapping[str, Collection[str]] | None = None) -> dict[str, str]:
    """The deliveries of these facts, as parameters of a statement."""
    routes = [(row.id, each.name, stream_of(row, each)) for row in rows for each in receivers_for(row)]
    if only is not None:
        routes = [route for route in routes if route[1] in only[route[0]]]
    return {
        "route_event": text_array(route[0] for route in routes),
        "route_subscriber": text_array(route[1] for route in routes),
        "route_stream": text_array(route[2] for route in routes),
    }


def _column(values: Sequence[Any]) -> str:
    return text_array(values) if isinstance(values[0], str | None) else number_array(values)


def refuse_unroutable(type: str, aggregate_type: str) -> None:
    """Refuse an event without an aggregate if a subscriber handles it in order per aggregate."""
    for subscriber in () if aggregate_type else receivers_of(type):
        if subscriber.ordered and not is_outside(subscriber.name):
            raise InvalidEvent(
                f"Subscriber {subscriber.name!r} takes {type!r} in order per aggregate, but the event has none; "
                "emit it with about=..."
            )


def stream_of(row: FactRow, subscriber: Subscriber) -> str | None:
    """The ordered stream of a delivery, if its subscriber is ordered."""
    if not subscriber.ordered:
        return None
    refuse_unroutable(row.type, row.aggregate_type)
    if not row.aggregate_type:  # a destination accepts such events, without an order
        return None
    return f"{row.aggregate_type}:{row.aggregate_id}"


def _firsts(repeated: Sequence[FactRow], alias: str, on_conflict: OnConflict) -> dict[tuple[str, str | None], Fact]:
    """The existing events with the idempotency keys of those that were not stored; the repetition is added to their
    history."""
    if not repeated:
        return {}
    params = {"type": [row.type for row in repeated], "key": [row.key for row in repeated], "now": None}
    found = run("find_by_key", alias, {**params, "note": _repeated_by(repeated[0])})
    firsts = {(row[1], row[11]): Fact(FactRow(*row), created=False) for row in found}
    for row in repeated:
        first = firsts.get((row.type, row.key))
        if first is None:
            raise DueboxError(f"The first event {row.type!r} with key {row.key!r} was removed meanwhile; emit again.")
        differs = _differences(Fact(row), first)
        if differs and on_conflict == "error":
            raise IdempotencyConflict(row.type, row.key or "", differs, first.id)
    return firsts


def _repeated_by(row: FactRow) -> str:
    """The actor and the correlation id of a repeated emit, for the history of the first event."""
    who = f"by {Fact(row).actor}" if row.actor else ""
    return ", ".join(filter(None, [who, f"correlation id {row.correlation}" if row.correlation != row.id else ""]))


def _differences(new: Fact, first: Fact) -> list[str]:
    """The names of the fields that differ. The data is not compared if the payload of the first event was removed."""
    names = ["about", "organization", "version"]
    if PAYLOAD_REMOVED_AT not in first.metadata:
        names.insert(0, "data")
    return [name for name in names if getattr(new, name) != getattr(first, name)]
