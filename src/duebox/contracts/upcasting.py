"""Stored events for current code: upcast to the newest version, fill in defaults, build instances of the declaring
class.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any, NamedTuple, TypeVar, overload

from duebox.contracts import class_schemas, event_types, json_schema
from duebox.contracts.event_types import EventType
from duebox.events.fact import Fact
from duebox.exceptions import InvalidContract, InvalidPayload, UnsupportedVersion

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Path(NamedTuple):
    """The steps that turn the data of one version into the data of another."""

    defaults: EventType | None
    """The type whose defaults the stored data may lack."""
    steps: tuple[EventType, ...]
    """The versions to upcast to, one after the other."""


def current(fact: Fact) -> Fact:
    """The event in the newest version that it can be upcast to; the same object when there is nothing to do."""
    return _follow(fact, _path_to_newest(fact.type, fact.version))


def at_version(fact: Fact, version: int, reader: str) -> Fact:
    """The event in this version, for a reader of that version only. Raises `UnsupportedVersion` if it cannot be
    upcast."""
    return _follow(fact, _path_to(fact.type, fact.version, version, reader))


@cache
def _path_to_newest(name: str, version: int) -> _Path:
    known = event_types.versions_of(name)
    steps = _steps(name, version)
    if known and version not in known and not steps:
        raise UnsupportedVersion(name, version, f" (it reads {', '.join(f'v{each}' for each in sorted(known))})")
    return _path(name, version, steps)


@cache
def _path_to(name: str, version: int, target: int, reader: str) -> _Path:
    steps = [step for step in _steps(name, version) if step.version <= target]
    if version == target or (steps and steps[-1].version == target):
        return _path(name, version, steps)
    if version < target:
        repair = f"give version {version + 1} an upcast=, or subscribe by name and look at event.version"
    elif version in event_types.versions_of(name):
        repair = f"subscribe with the class of version {version}"
    else:
        repair = "deploy the code that declares it"
    raise UnsupportedVersion(name, version, f" as {reader} (version {target})", repair)


event_types.watch(_path_to_newest.cache_clear)
event_types.watch(_path_to.cache_clear)


def _steps(name: str, version: int) -> list[EventType]:
    """The versions after this one, as far as each has an upcast."""
    known, steps = event_types.versions_of(name), []
    while (following := known.get(version + 1)) is not None and following.upcast is not None:
        steps.append(following)
        version += 1
    return steps


def _path(name: str, version: int, steps: list[EventType]) -> _Path:
    kind = event_types.versions_of(name).get(version)
    return _Path(kind if kind is not None and kind.fills_defaults else None, tuple(steps))


def _follow(fact: Fact, path: _Path) -> Fact:
    if not path.defaults and not path.steps:
        return fact
    data = json_schema.fill_defaults(fact.data, path.defaults.schema) if path.defaults else fact.data
    if not path.steps:
        return fact if data is fact.data else fact.as_version(fact.version, _dump(data))
    data = copy.deepcopy(data)  # an upcaster may write into it
    for step in path.steps:
        assert step.upcast is not None
        data = step.upcast(data)
    newest = path.steps[-1]
    try:
        newest.check(data, values=False)  # this error is logged
    except InvalidPayload as error:
        raise InvalidContract(
            f"The upcast of {fact.type} from v{fact.version} to v{newest.version} returned data that is invalid for "
            f"v{newest.version}: "
            f"{error}"
        ) from error
    return fact.as_version(newest.version, _dump(data))


T = TypeVar("T")


@overload
def read(fact: Fact, shape: type[T]) -> T: ...
@overload
def read(fact: Fact, shape: None = None) -> Any: ...
def read(fact: Fact, shape: type[T] | None = None) -> Any:
    """`read(event, MemberInvited)`: the data as an instance of the class, in the version that the class declares.

    Without a class, it is an instance of the class that declares the newest version. Data that the schema of the class
    refuses raises `InvalidPayload`; fields that the schema does not know are left out.
    """
    kind = event_types.type_of(shape) if shape is not None else None
    fact = current(fact) if kind is None else as_declared(fact, kind)
    if shape is not None and kind is None:
        return class_schemas.instance_of(shape, fact.data)
    kind = kind or event_types.versions_of(fact.type).get(fact.version)
    if kind is None or kind.shape is None:
        raise UnsupportedVersion(fact.type, fact.version, " as a class")
    kind.refuse_unreadable(fact.data)
    return class_schemas.instance_of(kind.shape, fact.data)


def as_declared(fact: Fact, kind: event_types.EventType) -> Fact:
    """The event in the version that a type declares."""
    name = kind.shape.__name__ if kind.shape else kind.name
    if fact.type != kind.name:
        raise InvalidContract(
            f"{name} declares {kind.name!r}, and the event is {fact.type!r}; read it as the class that declares that."
        )
    return at_version(fact, kind.version, name)
