"""Everything but: what is there and is not on a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duebox.destinations.patterns import numbers, texts
from duebox.destinations.patterns.operands import comparable, only_entry, text_of, wildcard_of
from duebox.destinations.patterns.values import Matcher, Test
from duebox.destinations.patterns.words import shown
from duebox.exceptions import InvalidPattern

Reader = Callable[[Any, str], Test]


def anything_but(operand: Any, where: str) -> Matcher:
    if isinstance(operand, Mapping):
        name, unwanted = only_entry(operand, where)
        if name not in KINDS:
            raise InvalidPattern(where, f"{shown(name)} cannot stand here", f"use a value or one of {', '.join(KINDS)}")
        words, read = KINDS[name]
        entries, where = _listed(unwanted, f"{where}.{name}"), f"{where}.{name}"
        return _none_of([read(each, where) for each in entries], [words.format(shown(each)) for each in entries])
    values = _listed(operand, where)
    if len({isinstance(value, str) for value in values}) > 1:
        raise InvalidPattern(where, f"{shown(operand)} mixes texts and numbers", "leave out only texts or only numbers")
    return _none_of([_value(value, where) for value in values], [shown(value) for value in values])


def _listed(operand: Any, where: str) -> list[Any]:
    values = list(operand) if isinstance(operand, list | tuple) else [operand]
    if not values:
        raise InvalidPattern(where, "is an empty list", "name at least one value")
    return values


def _none_of(tests: list[Test], words: list[str]) -> Matcher:
    said = f"anything but {' or '.join(words)}"
    if len(tests) == 1:
        [unwanted] = tests
        return Matcher(said, lambda value: not unwanted(value))
    return Matcher(said, lambda value: not any(test(value) for test in tests))


def _value(value: Any, where: str) -> Test:
    if isinstance(value, str):
        text = str(value)
        return lambda found: found == text
    if not numbers.is_number(value):
        raise InvalidPattern(where, f"{shown(value)} is neither a text nor a number", "only those can be left out")
    return numbers.equals(comparable(value, where))


def _not_empty(operand: Any, where: str) -> str:
    text = text_of(operand, where)
    if not text:
        raise InvalidPattern(where, "is an empty text, which every text begins and ends with", "name a longer one")
    return text


KINDS: dict[str, tuple[str, Reader]] = {
    "prefix": ("what begins with {}", lambda operand, where: texts.prefix(_not_empty(operand, where))),
    "suffix": ("what ends with {}", lambda operand, where: texts.suffix(_not_empty(operand, where))),
    "equals-ignore-case": ("{} in any case", lambda operand, where: texts.equals_ignore_case(text_of(operand, where))),
    "wildcard": ("what is like {}", lambda operand, where: texts.wildcard(wildcard_of(operand, where))),
}
