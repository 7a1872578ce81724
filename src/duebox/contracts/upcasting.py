"""Old events for new code: stored data is brought to a newer version, and required fields that it lacks get their
default, before a handler sees it."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import NamedTuple

from duebox.contracts import defaults, types
from duebox.contracts.types import EventType
from duebox.exceptions import InvalidContract, InvalidPayload, UnsupportedVersion
from duebox.fact import Fact

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Route(NamedTuple):
    """How the data of one version becomes that of another."""

    fill: EventType | None
    """The type whose defaults the stored data may lack."""
    steps: tuple[EventType, ...]


_AS_IT_IS = _Route(None, ())


def current(fact: Fact) -> Fact:
    """The event in the newest version that upcasters lead to; itself when there is nothing to do."""
    return _along(fact, _newest(fact.type, fact.version))


def at_version(fact: Fact, version: int, reader: str) -> Fact:
    """The event in this version, for a reader that knows no other. `UnsupportedVersion` if nothing leads there."""
    return _along(fact, _to(fact.type, fact.version, version, reader))


@cache
def _newest(name: str, version: int) -> _Route:
    """A version that nobody declares and nothing leads on from is refused."""
    known = types.versions_of(name)
    steps = _steps(name, version)
    if known and version not in known and not steps:
        raise UnsupportedVersion(name, version, f" (it reads {', '.join(f'v{each}' for each in sorted(known))})")
    return _route(name, version, steps)


@cache
def _to(name: str, version: int, target: int, reader: str) -> _Route:
    if version == target:
        return _route(name, version, ())
    steps = tuple(step for step in _steps(name, version) if step.version <= target)
    if steps and steps[-1].version == target:
        return _route(name, version, steps)
    if version < target:
        repair = f"give version {version + 1} an upcast=, or subscribe by name and look at event.version"
    elif version in types.versions_of(name):
        repair = f"subscribe with the class of version {version}"
    else:
        repair = "deploy the code that declares it"
    raise UnsupportedVersion(name, version, f" as {reader} (version {target})", repair)


def _steps(name: str, version: int) -> tuple[EventType, ...]:
    """The versions that upcasters lead through, one after the other."""
    known = types.versions_of(name)
    steps = []
    following = known.get(version + 1)
    while following is not None and following.upcast is not None:
        steps.append(following)
        following = known.get(following.version + 1)
    return tuple(steps)


def _route(name: str, version: int, steps: tuple[EventType, ...]) -> _Route:
    kind = types.versions_of(name).get(version)
    fill = kind if kind is not None and kind.fills_defaults else None
    return _Route(fill, steps) if fill or steps else _AS_IT_IS


types.watch(_newest.cache_clear)
types.watch(_to.cache_clear)


def _along(fact: Fact, route: _Route) -> Fact:
    if route is _AS_IT_IS:
        return fact
    data = defaults.filled(fact.data, route.fill.schema) if route.fill else fact.data
    if route.steps:
        return _upcast(fact, data, route.steps)
    return fact if data is fact.data else fact.as_version(fact.version, _dump(data))


def _upcast(fact: Fact, data: types.Data, steps: tuple[EventType, ...]) -> Fact:
    data = copy.deepcopy(data)  # an upcaster may write into it
    for step in steps:
        assert step.upcast is not None
        data = step.upcast(data)
    newest = steps[-1]
    try:
        newest.check(data, values=False)  # this error ends in a log
    except InvalidPayload as error:
        raise InvalidContract(
            f"The upcast of {fact.type} from v{fact.version} to v{newest.version} gave what v{newest.version} refuses: "
            f"{error}"
        ) from error
    return fact.as_version(newest.version, _dump(data))
