"""Validate a new event against its declared type, and derive its public event."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duebox.conf import Settings, conf
from duebox.contracts import class_schemas, event_types, naming
from duebox.contracts.event_types import EventType
from duebox.events.fact import EXPIRES_AT, Actor, FactRow
from duebox.events.identities import uuid7
from duebox.events.subscribers import PERIODIC
from duebox.exceptions import InvalidEvent, UndeclaredEvent, did_you_mean

if TYPE_CHECKING:
    from duebox.events.emit import NewEvent

logger = logging.getLogger("duebox.emit")

_TYPE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_TEXT_LIMIT = 500
OWN = "duebox."
RESERVED = (OWN, PERIODIC)
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Own(str):
    """The type of an event that Duebox emits itself. Plain strings with such a name are refused: some of these events
    control the engine, and the type of an event may come from untrusted input."""

    __slots__ = ()


class Contract(NamedTuple):
    name: str
    version: int
    data: Any
    kind: EventType | None


def contract_of(event: NewEvent, settings: Settings) -> Contract:
    """The type, version and data of an event. Raises `UndeclaredEvent` when the type is not declared."""
    if not isinstance(event.type, str):
        return _contract_of_instance(event)
    name, version = str(event.type), event.version
    if name.startswith(RESERVED) and not isinstance(event.type, Own):
        raise InvalidEvent(f"{name!r} begins with a prefix that is reserved for Duebox; give your event another name.")
    known = event_types.versions_of(name)
    kind = known.get(max(known) if version is None else version) if known else None
    if kind is not None and not kind.twin_of:
        return Contract(name, kind.version, event.data, kind)
    refuse_spelling(name)
    _refuse_undeclared(name, version, known, settings)
    version = 1 if version is None else version
    if not isinstance(version, int) or not 1 <= version <= 32_767:
        raise InvalidEvent(f"version={version!r} must be a whole number from 1 to 32767.")
    return Contract(name, version, event.data, None)


def _contract_of_instance(event: NewEvent) -> Contract:
    if isinstance(event.type, type) and event_types.type_of(event.type) is not None:
        name = event.type.__name__
        raise InvalidEvent(f"{name} is the class and not an event; emit an instance: {name}(...).")
    kind = event_types.type_of(type(event.type))
    if kind is None:
        # Not the value itself, which may contain personal data.
        raise UndeclaredEvent(
            f"The event is a {type(event.type).__name__}; emit a name, or an instance of a class under @duebox.event."
        )
    if event.data is not None or event.version not in (None, kind.version):
        name = type(event.type).__name__
        raise InvalidEvent(f"An instance of {name} carries its own data and version; leave data and version out.")
    if event_types.is_misspelt(kind.name):
        raise InvalidEvent(naming.misspelling_text(kind.name))
    return Contract(kind.name, kind.version, class_schemas.data_of(event.type), kind)


def refuse_spelling(name: str) -> None:
    """Raise `InvalidEvent` for a name that cannot be stored, whether it is declared or not."""
    if is_misspelt(name):
        raise InvalidEvent(naming.misspelling_text(name))


def is_misspelt(name: str) -> bool:
    """Whether events of this type cannot be emitted because of its name. The name of an undeclared type may be longer,
    and begin with a digit."""
    return not _TYPE.fullmatch(name) or len(name) > _TEXT_LIMIT or event_types.is_misspelt(name)


def _refuse_undeclared(name: str, version: int | None, known: Mapping[int, EventType], settings: Settings) -> None:
    if name.startswith("public."):
        raise InvalidEvent(
            f"{name!r} is a public event; Duebox creates it when {name.removeprefix('public.')!r} is emitted, "
            "if that type is declared with public={...}."
        )
    if known:
        there = ", ".join(f"v{each}" for each in sorted(known))
        raise UndeclaredEvent(f"Event {name!r} has no version {version!r}; declared are {there}.")
    if settings.UNDECLARED == "allow" or name.startswith(RESERVED):
        return
    hint = did_you_mean(name, {each.name for each in event_types.declared()}, cutoff=0.75)
    declare = f"{hint} If not, declare" if hint else "declare"
    raise UndeclaredEvent(
        f"The event type {name!r} is not declared; {declare} it with @duebox.event({name!r}) above a class in "
        "events.py, or set DUEBOX['UNDECLARED'] = 'allow' while you migrate."
    )


def refuse_incomplete(kind: EventType, aggregate_type: str, organization: str) -> None:
    """Raise `InvalidEvent` when the type needs an `about` or an `organization` that the event does not have."""
    if kind.aggregate and aggregate_type != kind.aggregate:
        actual = f"it is about a {aggregate_type!r}" if aggregate_type else "it has no about"
        other = f", or declare it with aggregate={aggregate_type!r}" if aggregate_type else ""
        raise InvalidEvent(
            f"{kind.name} is about a {kind.aggregate!r}, but {actual}; pass about=({kind.aggregate!r}, id){other}."
        )
    if kind.public and not organization:
        raise InvalidEvent(
            f"{kind.name} has a public event, which needs an organization, but none is given; pass organization=..."
        )


def with_public_events(rows: Sequence[FactRow]) -> list[FactRow]:
    """The rows, each followed by its public event where its type declares one."""
    found = []
    for row in rows:
        found.append(row)
        kind = event_types.versions_of(row.type).get(row.version)
        if kind is None or not kind.public:
            continue
        if row.organization:
            found.append(_public_event(row, kind))
        else:  # it was scheduled before its type had a public event
            logger.error("public event left out, no organization: type=%s id=%s", row.type, row.id)
    return found


def _public_event(row: FactRow, kind: EventType) -> FactRow:
    """The row of the public event: without idempotency key and metadata, except for the expiry; without the actor
    unless PUBLIC_ENVELOPE allows it, and never with the actor's email. It is stored only together with its event."""
    actor, metadata = None, {}
    if row.actor is not None and "actor" in conf().PUBLIC_ENVELOPE:
        actor = Actor(**json.loads(row.actor))._replace(email=None).to_json()
    if EXPIRES_AT in row.metadata:
        metadata = {word: value for word, value in json.loads(row.metadata).items() if word == EXPIRES_AT}
    return row._replace(
        id=str(uuid7()), type=f"public.{row.type}", causation=row.id, actor=actor, key=None,
        data=_dump(kind.project(json.loads(row.data))), metadata=_dump(metadata),
    )  # fmt: skip
