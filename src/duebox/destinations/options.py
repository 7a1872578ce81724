"""OPTIONS beside the annotations of a destination's class: a value of the wrong kind is refused before it is used.

The values are not quoted, unless they should be numbers: there are passwords among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from duebox.destinations.given import LARGEST
from duebox.exceptions import InvalidDestination

_WORDS: dict[Any, str] = {bool: "True or False", int: "a number", float: "a number", str: "a text", NoneType: "None"}


def refuse_other_kinds(kind: type, options: Mapping[str, Any]) -> None:
    hints = _hints(kind)
    for name, given in options.items():
        wanted = _kinds(hints.get(name, Any))
        if not any(_fits(each, given) for each in wanted):
            told = repr(given) if {int, float, bool} & set(wanted) else f"a {type(given).__name__}"
            words = " or ".join(dict.fromkeys(_word(each) for each in wanted))
            raise InvalidDestination(f"{name} is {told}; it must be {words}.")


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind.__init__)  # type: ignore[misc]
    except Exception:  # names that are there for type checkers only
        return {}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(kind: Any, given: Any) -> bool:
    """Of everything else the class itself is the judge."""
    if kind in (int, float):
        return not isinstance(given, bool) and isinstance(given, int | float) and abs(given) <= LARGEST
    if kind in _WORDS:
        return isinstance(given, kind)
    family = get_origin(kind) or kind
    if _is_below(family, Mapping):
        return isinstance(given, Mapping)
    if _is_below(family, Collection):
        return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)
    return True


def _word(kind: Any) -> str:
    return _WORDS.get(kind) or ("a dict" if _is_below(get_origin(kind) or kind, Mapping) else "a list")


def _is_below(family: Any, kind: type) -> bool:
    return isinstance(family, type) and issubclass(family, kind)
