"""How something changed: old and new by name, only where they differ, only what may be seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from duebox.auditing.policy import Pair, Policy
from duebox.auditing.values import plain
from duebox.conf import Settings
from duebox.exceptions import InvalidAudit
from duebox.payload import encode

Values = Mapping[str, Any]


def difference(before: Values | None, after: Values | None) -> dict[str, Pair]:
    """What differs. What is in one of them only, was or is now nothing."""
    old, new = before or {}, after or {}
    pairs = {name: (old.get(name), new.get(name)) for name in {**old, **new}}
    return {name: pair for name, pair in pairs.items() if _differ(*pair)}


def of_row(kind: str, policy: Policy, before: Values | None, after: Values | None) -> str | None:
    """The changes of a row as JSON; None if there are none."""
    changed = policy.seen(kind, difference(before, after))
    if not changed and before is not None and after is not None:
        return None
    return json.dumps({name: [plain(value) for value in pair] for name, pair in changed.items()}, ensure_ascii=False)


def as_given(
    kind: str,
    policies: Sequence[Policy],
    settings: Settings,
    *,
    before: Values | None,
    after: Values | None,
    changes: Mapping[str, Pair] | None,
) -> str:
    """The changes that a caller gives as JSON; strictly, since the caller can repair them."""
    if changes is not None and (before is not None or after is not None):
        raise InvalidAudit("changes= says it all; leave out before= and after=, or give only those two.")
    shown: Mapping[str, Any] = _pairs(changes) if changes is not None else difference(_named(before), _named(after))
    for policy in policies:
        shown = policy.seen(kind, shown)
    return encode(shown, root="changes", limit=settings.PAYLOAD_LIMIT_BYTES, depth=settings.PAYLOAD_DEPTH)


def _differ(old: Any, new: Any) -> bool:
    return bool(old != new) or type(old) is not type(new)  # 1 is not True in JSON


def _named(values: Values | None) -> Values | None:
    if values is None or isinstance(values, Mapping):
        return values
    raise InvalidAudit(f"before= and after= must be dicts of values by name, not a {type(values).__name__}.")


def _pairs(changes: Mapping[str, Pair]) -> dict[str, Pair]:
    if not isinstance(changes, Mapping):
        raise InvalidAudit(
            f"changes= must be a dict like {{'role': ('guest', 'admin')}}, not a {type(changes).__name__}."
        )
    for name, pair in changes.items():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidAudit(f"changes[{name!r}] must be a pair of old and new, like ('guest', 'admin').")
    return {name: (pair[0], pair[1]) for name, pair in changes.items()}
