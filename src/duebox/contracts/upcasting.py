"""Old events for new code: what was stored under an earlier version is brought up to date before a handler sees it."""

from __future__ import annotations

import copy
import json
from functools import cache

from duebox.contracts import types
from duebox.contracts.types import EventType
from duebox.exceptions import InvalidContract, InvalidPayload, UnsupportedVersion
from duebox.fact import Fact

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def current(fact: Fact) -> Fact:
    """The event in the newest version that upcasters lead to; itself when there is nothing to do."""
    steps = _steps(fact.type, fact.version)
    return _upcast(fact, steps) if steps else fact


@cache
def _steps(name: str, version: int) -> tuple[EventType, ...]:
    """The versions to go through. A version that nobody declares and nothing leads on from is refused."""
    known = types.versions_of(name)
    steps = []
    following = known.get(version + 1)
    while following is not None and following.upcast is not None:
        steps.append(following)
        following = known.get(following.version + 1)
    if known and version not in known and not steps:
        raise UnsupportedVersion(name, version, f" (it reads {', '.join(f'v{each}' for each in sorted(known))})")
    return tuple(steps)


types.watch(_steps.cache_clear)


def _upcast(fact: Fact, steps: tuple[EventType, ...]) -> Fact:
    data = copy.deepcopy(fact.data)  # an upcaster may write into it
    for step in steps:
        assert step.upcast is not None
        data = step.upcast(data)
    newest = steps[-1]
    try:
        newest.check(data)
    except InvalidPayload as error:
        raise InvalidContract(
            f"The upcast of {fact.type} from v{fact.version} to v{newest.version} gave what v{newest.version} refuses: "
            f"{error}"
        ) from error
    return fact.as_version(newest.version, _dump(data))
