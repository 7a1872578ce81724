"""The values of a field in an event.

A path is its names joined by dots, so a name that holds a dot is the same as nesting. Lists are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

Chain = tuple[tuple[int, int], ...]
"""In which elements of which lists a value lies: how many steps down the list is, and the place in it."""


class Nothing(Enum):
    ABSENT = "absent"
    """The field is not there. An object is not a value, and an empty list has none."""
    INTRICATE = "intricate"
    """Not to be had by looking along one way: lists of objects, names with dots, types of other libraries."""


ABSENT, INTRICATE = Nothing.ABSENT, Nothing.INTRICATE
_SCALARS = frozenset({str, int, float, bool, type(None)})
_PLAIN = _SCALARS | {dict, list}


def straight(steps: tuple[str, ...]) -> Callable[[Any], Any]:
    """Look along the only way to a field; the value, a list of values, ABSENT or INTRICATE."""
    way = tuple(
        (step, tuple(".".join(steps[at:end]) for end in range(at + 2, len(steps) + 1))) for at, step in enumerate(steps)
    )

    def find(here: Any) -> Any:
        for step, dotted in way:
            if here.__class__ is not dict:
                return ABSENT if here.__class__ in _SCALARS else INTRICATE
            for name in dotted:
                if name in here:
                    return INTRICATE
            here = here.get(step, ABSENT)
            if here is ABSENT:
                return ABSENT
        return _leaf(here)

    return find


def _leaf(value: Any) -> Any:
    if value.__class__ in _SCALARS:
        return value
    if value.__class__ is dict:
        return ABSENT
    if value.__class__ is list and all(each.__class__ in _SCALARS for each in value):
        return value or ABSENT
    return INTRICATE


def everywhere(steps: tuple[str, ...]) -> Callable[[Any], list[tuple[Any, Chain]]]:
    """Look through lists and along all ways; every value of a field with the elements it lies in."""
    last = len(steps)
    names = [[(".".join(steps[at:end]), end) for end in range(at + 1, last + 1)] for at in range(last + 1)]

    def find(event: Any) -> list[tuple[Any, Chain]]:
        found: list[tuple[Any, Chain]] = []
        ahead: list[tuple[Any, int, Chain]] = [(event, 0, ())]
        while ahead:
            value, at, chain = ahead.pop()
            if _is_object(value):
                ahead += [(value[name], end, chain) for name, end in names[at] if name in value]
            elif _is_list(value):
                ahead += [
                    (each, at, (*chain, (at, index)) if _is_object(each) or _is_list(each) else chain)
                    for index, each in enumerate(value)
                ]
            elif at == last:
                found.append((_scalar(value), chain))
        return found[::-1]

    return find


def _is_object(value: Any) -> bool:
    # The class first: asking for Mapping takes ten times as long, and this is asked of every element.
    return value.__class__ is dict or (value.__class__ not in _PLAIN and isinstance(value, Mapping))


def _is_list(value: Any) -> bool:
    return value.__class__ is list or (value.__class__ not in _PLAIN and isinstance(value, list | tuple))


def _scalar(value: Any) -> Any:
    """A subclass in its plain form. What JSON does not know is there, and equal to nothing."""
    if value.__class__ in _SCALARS:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return object()
