"""A pattern → its alternatives, each a set of conditions that must all hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duebox.destinations.patterns.matchers import OPERATORS, read_matcher
from duebox.destinations.patterns.numbers import COMPARISONS
from duebox.destinations.patterns.values import Condition, condition
from duebox.destinations.patterns.words import shown
from duebox.exceptions import InvalidPattern

OR = "$or"
DEEPEST = 64
MOST_ALTERNATIVES = 1000
MOST_FIELDS = 256
# The engine keeps these for itself as names of fields inside a $or.
RESERVED = frozenset({
    *OPERATORS, *COMPARISONS, "regex", "not-wildcard", "not-equals-ignore-case", "date-after", "date-on-or-after",
    "date-before", "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range",
})  # fmt: skip

Fields = dict[str, Condition]


def read_pattern(pattern: Any) -> list[tuple[Condition, ...]]:
    """The alternatives of a pattern. Refuses what is not one."""
    if not isinstance(pattern, Mapping):
        raise InvalidPattern("pattern", f"{shown(pattern)} is not an object", "name the fields of the event in it")
    return [_conditions(fields) for fields in _read_object([{}], "", pattern, depth=0, in_or=False)]


def _conditions(fields: Fields) -> tuple[Condition, ...]:
    if len(fields) > MOST_FIELDS:
        raise InvalidPattern("pattern", f"has {len(fields)} fields", f"keep to {MOST_FIELDS}")
    return tuple(sorted(fields.values(), key=lambda each: each.steps))


def _read_object(
    alternatives: list[Fields], at: str, part: Mapping[Any, Any], *, depth: int, in_or: bool
) -> list[Fields]:
    if not part:
        raise InvalidPattern(at or "pattern", "is an empty object", "name a field in it, or leave it out")
    if depth > DEEPEST:
        raise InvalidPattern("pattern", f"is nested deeper than {DEEPEST} levels", "make it flatter")
    for name, value in part.items():
        if not isinstance(name, str):
            raise InvalidPattern(at or "pattern", f"has the name {shown(name)}", "names are texts")
        where = f"{at}.{name}" if at else name
        if name == OR:
            alternatives = _read_or(alternatives, at, value, depth=depth + 1)
        elif in_or and name in RESERVED:
            raise InvalidPattern(
                where, f"{shown(name)} cannot be a field inside $or", "write the operator inside the list of a field"
            )
        elif isinstance(value, Mapping):
            alternatives = _read_object(alternatives, where, value, depth=depth + 1, in_or=in_or)
        else:
            _add(alternatives, _read_field(value, where))
    return alternatives


def _read_or(alternatives: list[Fields], at: str, branches: Any, *, depth: int) -> list[Fields]:
    where = f"{at}.{OR}" if at else OR
    if not isinstance(branches, list | tuple) or len(branches) < 2:
        raise InvalidPattern(where, f"is {shown(branches)}", "write a list of two or more objects")
    found: list[Fields] = []
    for index, branch in enumerate(branches):
        if not isinstance(branch, Mapping):
            raise InvalidPattern(
                f"{where}[{index}]", f"{shown(branch)} is not an object", "name fields of the event in it"
            )
        found += _read_object([dict(fields) for fields in alternatives], at, branch, depth=depth, in_or=True)
        if len(found) > MOST_ALTERNATIVES:
            raise InvalidPattern(
                where, f"makes more than {MOST_ALTERNATIVES} combinations", "make several patterns of it"
            )
    return found


def _read_field(value: Any, where: str) -> Condition:
    if not isinstance(value, list | tuple):
        raise InvalidPattern(where, f"{shown(value)} stands alone", f"put it in a list: [{shown(value)}]")
    if not value:
        raise InvalidPattern(where, "is an empty list, which nothing can match", "name a value, or leave the field out")
    if where.count(".") > DEEPEST:
        raise InvalidPattern("pattern", f"is nested deeper than {DEEPEST} levels", "make it flatter")
    return condition(where, tuple(read_matcher(entry, f"{where}[{index}]") for index, entry in enumerate(value)))


def _add(alternatives: list[Fields], added: Condition) -> None:
    for fields in alternatives:
        if added.path in fields:
            raise InvalidPattern(added.path, "is named twice; one would be ignored", "put all its values into one list")
        fields[added.path] = added
