"""Values of the settings as somebody wrote them: what cannot be meant is refused, with its name and the repair."""

from __future__ import annotations

import sys
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from duebox.exceptions import InvalidDestination

LARGEST = sys.float_info.max


def number(name: str, given: Any) -> float:
    """Neither a truth nor NaN, and no more than a float holds."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not abs(given) <= LARGEST:
        raise InvalidDestination(f"{name} is {given!r}; it must be a number.")
    return given


def whole(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidDestination(f"{name} is {given!r}; it must be a whole number.")
    return given


def truth(name: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise InvalidDestination(f"{name} is {given!r}; it must be True or False.")
    return given


def listed(name: str, given: Any, of: str) -> list[Any]:
    """A text is a list of its letters to Python, and never meant so."""
    if not isinstance(given, list | tuple | set | frozenset):
        raise InvalidDestination(f"{name} is {given!r}; it must be a list of {of}.")
    return list(given)


def only_known(where: str, given: Collection[Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise InvalidDestination(f"{where} has {name!r}, which is not known; {hint}")
