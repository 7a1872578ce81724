"""Event types as people write them: which are known, and which one may have been meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from duebox.contracts import declared
from duebox.promise import OWN
from duebox.subscribers import subscribers

PUBLIC = "public."
OWN_TYPES = frozenset(
    {
        "duebox.delivery.dead",
        "duebox.endpoint.disabled",
        "duebox.endpoint.failing",
        "duebox.plans.reconcile",
        "duebox.sweep.due",
        "duebox.task",
    }
)
"""What Duebox itself emits."""
_SHOWN = 8


def public(pattern: str) -> str:
    """As it is stored for webhooks; people leave the prefix out."""
    return pattern if pattern.startswith(PUBLIC) else f"{PUBLIC}{pattern}"


def is_known(pattern: str, also: Collection[str] = ()) -> bool:
    """Whether a type is like that which is declared, which a handler names, which Duebox emits, or which is stored."""
    fits = re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
    return any(fits(name) for name in {*_named(), *OWN_TYPES, *also})


def unlike(pattern: str, other: str, stored: Collection[str] = ()) -> str:
    """That no type is like that, and which one may be meant; nothing where one is, or where none is known at all."""
    names = sorted({*_named(), *stored})
    if not names or is_known(pattern, stored):
        return ""
    near = get_close_matches(pattern, [*names, *OWN_TYPES], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {_some(names)}."
    return f"No event type is like {pattern!r}, neither a declared one nor that of {other}; {hint}"


def _some(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return f"{', '.join(names[:_SHOWN])}{f' and {rest} more' if rest > 0 else ''}"


def _named() -> set[str]:
    handled = {each.pattern for each in subscribers() if "*" not in each.pattern and not each.pattern.startswith(OWN)}
    return {each.name for each in declared()} | handled
