"""One entry of a list in a pattern → a test and its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from duebox.destinations.patterns import addresses, numbers, texts
from duebox.destinations.patterns.anything_but import anything_but
from duebox.destinations.patterns.operands import comparable, only_entry, text_of, wildcard_of
from duebox.destinations.patterns.values import Matcher
from duebox.destinations.patterns.words import shown
from duebox.exceptions import InvalidPattern

Reader = Callable[[Any, str], Matcher]


def read_matcher(entry: Any, where: str) -> Matcher:
    if isinstance(entry, str):
        return _text(str(entry))
    if entry is None or entry.__class__ is bool:
        return Matcher(shown(entry), lambda value: value is entry)
    if numbers.is_number(entry):
        if entry.__class__ is float and not math.isfinite(entry):
            raise InvalidPattern(where, f"{entry} is not a number that JSON knows", "name a finite one")
        return Matcher(shown(entry), numbers.equals(entry))
    if isinstance(entry, Mapping):
        name, operand = only_entry(entry, where)
        if name not in OPERATORS:
            raise InvalidPattern(where, f"{shown(name)} is not an operator", f"use one of {', '.join(OPERATORS)}")
        return OPERATORS[name](operand, f"{where}.{name}")
    raise InvalidPattern(where, f"{shown(entry)} is not a value", "name a text, a number, true, false or null")


def _text(text: str) -> Matcher:
    address = addresses.read_address(text)
    if address is not None:
        return Matcher(shown(text), addresses.is_address(address))
    return Matcher(shown(text), lambda value: value == text, literal=text)


def _exactly(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    return Matcher(shown(text), lambda value: value == text, literal=text)


def _prefix(operand: Any, where: str) -> Matcher:
    if isinstance(operand, Mapping):
        text = _any_case(operand, where)
        return Matcher(f"begins with {shown(text)} in any case", texts.prefix_ignore_case(text))
    text = text_of(operand, where)
    return Matcher(f"begins with {shown(text)}", texts.prefix(text))


def _suffix(operand: Any, where: str) -> Matcher:
    if isinstance(operand, Mapping):
        text = _any_case(operand, where)
        return Matcher(f"ends with {shown(text)} in any case", texts.suffix_ignore_case(text))
    text = text_of(operand, where)
    return Matcher(f"ends with {shown(text)}", texts.suffix(text))


def _any_case(operand: Mapping[Any, Any], where: str) -> str:
    name, text = only_entry(operand, where)
    if name != "equals-ignore-case":
        raise InvalidPattern(where, f"{shown(name)} cannot stand here", "use a text, or equals-ignore-case with a text")
    return text_of(text, f"{where}.{name}")


def _equals_ignore_case(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    return Matcher(f"{shown(text)} in any case", texts.equals_ignore_case(text))


def _wildcard(operand: Any, where: str) -> Matcher:
    return Matcher(f"like {shown(operand)}", texts.wildcard(wildcard_of(operand, where)))


def _exists(operand: Any, where: str) -> Matcher:
    if operand is True:
        return Matcher("present", lambda value: True)
    if operand is False:
        return Matcher("absent", lambda value: False, absent=True)
    raise InvalidPattern(where, f"is {shown(operand)}", "say true or false")


def _cidr(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    try:
        network = addresses.read_network(text)
    except ValueError as error:
        raise InvalidPattern(where, f"{shown(text)} {error}", "write it as 10.0.0.0/24 or 2001:db8::/32") from None
    return Matcher(f"within {network}", addresses.within(network))


def _numeric(operand: Any, where: str) -> Matcher:
    if not isinstance(operand, list | tuple) or len(operand) not in (2, 4):
        raise InvalidPattern(where, f"is {shown(operand)}", 'write a list such as [">", 0] or [">", 0, "<=", 5]')
    terms = [(_sign(operand[at], where), comparable(operand[at + 1], where)) for at in range(0, len(operand), 2)]
    if len(terms) == 2:
        _check_range(terms, where)
    words = " and ".join(f"{numbers.WORDS[sign]} {shown(bound)}" for sign, bound in terms)
    return Matcher(words, numbers.compares(terms))


def _sign(sign: Any, where: str) -> str:
    if not isinstance(sign, str) or sign not in numbers.COMPARISONS:
        raise InvalidPattern(where, f"{shown(sign)} is not a comparison", f"use one of {' '.join(numbers.COMPARISONS)}")
    return sign


def _check_range(terms: list[tuple[str, float]], where: str) -> None:
    (low, bottom), (high, top) = terms
    if low not in (">", ">=") or high not in ("<", "<="):
        raise InvalidPattern(where, f"has {low} and {high}", "a range has > or >= first, then < or <=")
    if not bottom < top:
        raise InvalidPattern(where, f"{shown(bottom)} is not below {shown(top)}", "widen the range")


OPERATORS: dict[str, Reader] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _equals_ignore_case,
    "wildcard": _wildcard,
    "anything-but": anything_but,
    "numeric": _numeric,
    "cidr": _cidr,
    "exists": _exists,
    "exactly": _exactly,
}
