"""OPTIONS of destinations: validation against annotations, name templates, and optional driver packages.

A name template such as "shop.{event_type}" becomes "shop.order.paid". Messages do not quote the values of options,
which may be passwords, unless they must be numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from string import Formatter
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from duebox.events.fact import Fact
from duebox.exceptions import InvalidDestination, did_you_mean


def driver(module: str, extra: str) -> Any:
    """A module of an optional package; `extra` is what installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InvalidDestination(
            f"The Python package {package!r} is not installed; run: pip install 'duebox[{extra}]'."
        ) from error


def positive(name: str, value: float) -> float:
    """An option that is a number above 0, such as a timeout."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise InvalidDestination(f"{name} is {value!r}; it must be a number above 0.")
    return value


LARGEST = sys.float_info.max


def number(name: str, given: Any) -> float:
    """A number that is neither a bool nor NaN, and fits into a float."""
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
    """A list. A text is refused, although Python can iterate over it."""
    if not isinstance(given, list | tuple | set | frozenset):
        raise InvalidDestination(f"{name} is {given!r}; it must be a list of {of}.")
    return list(given)


def only_known(where: str, given: Collection[Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"known are {', '.join(known)}."
            raise InvalidDestination(f"{where} has {name!r}, which is not known; {hint}")


NOTHING = "none"
"""The value if an event has no aggregate or no organization: an empty one would break most names."""

_PLACES = {
    "event_id": "id",
    "event_type": "type",
    "aggregate_type": "aggregate_type",
    "aggregate_id": "aggregate_id",
    "organization_id": "organization",
}


class Name:
    """`unsafe` are characters that the transport does not allow; each becomes an underscore. The literal text of the
    template is not changed."""

    def __init__(self, text: str, *, option: str, unsafe: str = "") -> None:
        self._text = _checked(text, option)
        self._places = {name for _, name, _, _ in Formatter().parse(text) if name}
        self._unsafe = re.compile(unsafe) if unsafe else None

    def of(self, fact: Fact) -> str:
        """The name for an event."""
        if not self._places:
            return self._text
        return self._text.format(**{place: self._value(fact, place) for place in self._places})

    def _value(self, fact: Fact, place: str) -> str:
        value: str = getattr(fact.row, _PLACES[place]) or NOTHING
        return self._unsafe.sub("_", value) if self._unsafe else value


def _checked(text: str, option: str) -> str:
    try:
        parts = list(Formatter().parse(text))
    except (TypeError, ValueError) as error:
        raise InvalidDestination(
            f"{option}={text!r} cannot be read ({error}); write it as 'shop.{{event_type}}'."
        ) from error
    for _, name, spec, conversion in parts:
        if name is not None and (name not in _PLACES or spec or conversion):
            raise InvalidDestination(f"{option}={text!r} has a place {name!r}; known are {', '.join(_PLACES)}.")
    if not text:
        raise InvalidDestination(f"{option} is empty; give it a name.")
    return text


_WORDS: dict[Any, str] = {bool: "True or False", int: "a number", float: "a number", str: "a text", NoneType: "None"}


def refuse_other_kinds(kind: type, options: Mapping[str, Any]) -> None:
    hints = _hints(kind)
    for name, given in options.items():
        wanted = _kinds(hints.get(name, Any))
        if not any(_fits(each, given) for each in wanted):
            shown = repr(given) if {int, float, bool} & set(wanted) else f"a {type(given).__name__}"
            words = " or ".join(dict.fromkeys(_word(each) for each in wanted))
            raise InvalidDestination(f"{name} is {shown}; it must be {words}.")


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind.__init__)  # type: ignore[misc]
    except Exception:  # names that exist only for type checkers
        return {}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(kind: Any, given: Any) -> bool:
    """Other annotations are validated by the class itself."""
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
