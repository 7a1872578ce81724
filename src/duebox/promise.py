"""What a new event is held to: its declared type, and what others may see of it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from duebox.conf import Settings, conf
from duebox.contracts import shapes, types
from duebox.contracts.types import EventType
from duebox.exceptions import InvalidEvent, UndeclaredEvent
from duebox.fact import EXPIRES_AT, Actor, FactRow
from duebox.ids import uuid7
from duebox.subscribers import PERIODIC

if TYPE_CHECKING:
    from duebox.emit import NewEvent

logger = logging.getLogger("duebox.emit")

_TYPE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_TEXT_LIMIT = 500
OWN = "duebox."
RESERVED = (OWN, PERIODIC)
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Own(str):
    """The type of an event of Duebox itself. Nobody else may emit one: some of them make the engine do something, and a
    type may come from a stranger."""

    __slots__ = ()


class Contract(NamedTuple):
    name: str
    version: int
    data: Any
    kind: EventType | None


def contract_of(event: NewEvent, settings: Settings) -> Contract:
    """Which type and version an event is of, and its data; refused when nobody declared it."""
    if not isinstance(event.type, str):
        return _of_instance(event)
    name, version = str(event.type), event.version
    if name.startswith(RESERVED) and not isinstance(event.type, Own):
        raise InvalidEvent(f"{name!r} begins as the events of Duebox itself do; give your event another name.")
    known = types.versions_of(name)
    kind = known.get(max(known) if version is None else version) if known else None
    if kind is not None and not kind.twin_of:
        return Contract(name, kind.version, event.data, kind)
    refuse_spelling(name)
    _refuse_undeclared(name, version, known, settings)
    return Contract(name, _version(version), event.data, None)


def _of_instance(event: NewEvent) -> Contract:
    if isinstance(event.type, type) and types.type_of(event.type) is not None:
        name = event.type.__name__
        raise InvalidEvent(f"{name} is the class and not an event; emit an instance: {name}(...).")
    kind = types.type_of(type(event.type))
    if kind is None:
        # Not the value itself, which may hold personal data.
        raise UndeclaredEvent(
            f"An event is no {type(event.type).__name__}; emit a name, or an instance of a class under @duebox.event."
        )
    if event.data is not None or event.version not in (None, kind.version):
        name = type(event.type).__name__
        raise InvalidEvent(f"An instance of {name} carries its own data and version; leave data and version out.")
    return Contract(kind.name, kind.version, shapes.data_of(event.type), kind)


def refuse_spelling(name: str) -> None:
    """Whatever is declared or not, a type is a name."""
    if not _TYPE.fullmatch(name) or len(name) > _TEXT_LIMIT:
        raise InvalidEvent(f"Event type {name!r} is not a name; use lower snake case like 'member.invited'.")


def _refuse_undeclared(name: str, version: int | None, known: Mapping[int, EventType], settings: Settings) -> None:
    if name.startswith("public."):
        raise InvalidEvent(
            f"{name!r} is a public event; Duebox makes it from {name.removeprefix('public.')!r} when that is emitted, "
            "if its declaration says public={...}."
        )
    if known:
        there = ", ".join(f"v{each}" for each in sorted(known))
        raise UndeclaredEvent(f"Event {name!r} has no version {version!r}; declared are {there}.")
    if settings.UNDECLARED == "allow" or name.startswith(RESERVED):
        return
    near = get_close_matches(name, {each.name for each in types.declared()}, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]!r}? If not, declare" if near else "declare"
    raise UndeclaredEvent(
        f"Nobody declared the event type {name!r}; {hint} it with @duebox.event({name!r}) above a class in events.py, "
        "or set DUEBOX['UNDECLARED'] = 'allow' while you migrate."
    )


def _version(version: int | None) -> int:
    if version is None:
        return 1
    if isinstance(version, int) and 1 <= version <= 32_767:
        return version
    raise InvalidEvent(f"version={version!r} must be a whole number from 1 to 32767.")


def refuse_incomplete(kind: EventType, aggregate_type: str, organization: str) -> None:
    """What the type wants around the data."""
    if kind.aggregate and aggregate_type != kind.aggregate:
        given = f"it is about a {aggregate_type!r}" if aggregate_type else "it has no about"
        other = f", or declare it with aggregate={aggregate_type!r}" if aggregate_type else ""
        raise InvalidEvent(
            f"{kind.name} is about a {kind.aggregate!r}, but {given}; pass about=({kind.aggregate!r}, id){other}."
        )
    if kind.public and not organization:
        raise InvalidEvent(
            f"{kind.name} has a public twin, which belongs to an organization, but none is given; pass organization=..."
        )


def with_twins(rows: Sequence[FactRow]) -> list[FactRow]:
    """The rows, each followed by its public twin where its type declares one."""
    found = []
    for row in rows:
        found.append(row)
        kind = types.versions_of(row.type).get(row.version)
        if kind is None or not kind.public:
            continue
        if row.organization:
            found.append(_twin(row, kind))
        else:  # it was scheduled before its type had a public twin
            logger.error("public twin left out, no organization: type=%s id=%s", row.type, row.id)
    return found


def _twin(row: FactRow, kind: EventType) -> FactRow:
    """Who did it, by which key, and what else is known about it stay inside. The store keeps it only with its event."""
    return row._replace(
        id=str(uuid7()), type=f"public.{row.type}", causation=row.id, actor=_public_actor(row), key=None,
        data=_dump(kind.project(json.loads(row.data))), metadata=_of_twin(row.metadata),
    )  # fmt: skip


def _of_twin(metadata: str) -> str:
    """When the event expires, and nothing else."""
    if EXPIRES_AT not in metadata:
        return "{}"
    given = json.loads(metadata)
    return _dump({EXPIRES_AT: given[EXPIRES_AT]}) if EXPIRES_AT in given else "{}"


def _public_actor(row: FactRow) -> str | None:
    """Nobody, or where PUBLIC_ENVELOPE allows it the actor without the email."""
    if row.actor is None or "actor" not in conf().PUBLIC_ENVELOPE:
        return None
    return Actor(**json.loads(row.actor))._replace(email=None).to_json()
