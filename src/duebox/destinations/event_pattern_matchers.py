"""The matchers of event patterns: one entry of a list becomes a test of a value and its description.

A path is its names joined by dots, so a name with a dot is the same as nesting. Lists are searched.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from duebox.exceptions import InvalidPattern

LONGEST_TEXT = 60


def shown(value: Any) -> str:
    """A value as JSON if possible, cut to a readable length."""
    try:
        text = f"'{value}'" if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


Chain = tuple[tuple[int, int], ...]
"""The list elements that contain a value: the depth of each list, and the index in it."""


class Nothing(Enum):
    ABSENT = "absent"
    """The field is absent. An object is not a value, and an empty list has none."""
    INTRICATE = "intricate"
    """The value needs the full search: lists of objects, names with dots, types of other libraries."""


ABSENT, INTRICATE = Nothing.ABSENT, Nothing.INTRICATE
_SCALARS = frozenset({str, int, float, bool, type(None)})
_PLAIN = _SCALARS | {dict, list}


def straight(steps: tuple[str, ...]) -> Callable[[Any], Any]:
    """Follow the only path to a field; returns the value, a list of values, ABSENT or INTRICATE."""
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
    """Search lists and all paths; returns every value of a field with the list elements that contain it."""
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
    # The class first: a check for Mapping takes ten times as long, and this runs for every element.
    return value.__class__ is dict or (value.__class__ not in _PLAIN and isinstance(value, Mapping))


def _is_list(value: Any) -> bool:
    return value.__class__ is list or (value.__class__ not in _PLAIN and isinstance(value, list | tuple))


def _scalar(value: Any) -> Any:
    """A subclass in its plain form. A value that JSON cannot represent is present, but equal to nothing."""
    if value.__class__ in _SCALARS:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return object()


Test = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One entry of a list in a pattern."""

    words: str
    """Its description, such as `begins with 'order.'`."""
    takes: Test
    literal: str | None = None
    """The only text that it matches, if there is only one. Such entries are looked up together."""
    absent: bool = False
    """Whether it matches if the field is absent."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition on one field."""

    path: str
    steps: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    look: Callable[[Any], Any]
    """The value in an event, if there is only one path to it."""
    search: Callable[[Any], list[tuple[Any, Chain]]]
    """All values in an event."""
    accepts: Test
    absent: bool

    @property
    def wanted(self) -> str:
        return " or ".join(matcher.words for matcher in self.matchers)


def condition_of(path: str, matchers: tuple[Matcher, ...]) -> Condition:
    steps = tuple(path.split("."))
    return Condition(
        path=path,
        steps=steps,
        matchers=matchers,
        look=straight(steps),
        search=everywhere(steps),
        accepts=_any_of(matchers),
        absent=any(matcher.absent for matcher in matchers),
    )


def shallow_first(conditions: Sequence[Condition]) -> list[Condition]:
    """Conditions on the source and type of an event come first: they are cheap and exclude most events."""
    return sorted(conditions, key=lambda each: len(each.steps))


def _any_of(matchers: tuple[Matcher, ...]) -> Test:
    texts = frozenset(matcher.literal for matcher in matchers if matcher.literal is not None)
    tests = tuple(matcher.takes for matcher in matchers if matcher.literal is None)
    if not tests:
        return texts.__contains__
    if not texts and len(tests) == 1:
        return tests[0]

    def accepts(value: Any) -> bool:
        return value in texts or any(test(value) for test in tests)

    return accepts


EXACT = 2**53
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WORDS = {"=": "equal to", "<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def is_number(value: Any) -> bool:
    return value.__class__ is int or value.__class__ is float


def as_double(number: float) -> float | None:
    """The number as a double; None if it cannot be one. Then no comparison matches it."""
    if number.__class__ is float or -EXACT <= number <= EXACT:
        return number if math.isfinite(number) else None
    try:
        double = float(number)
    except OverflowError:
        return None
    return double if Decimal(repr(double)) == number else None


def equals(number: float) -> Test:
    """Matches the same number in any notation. A number that is not a double equals itself only."""
    wanted = _one_form(number)
    return lambda value: is_number(value) and _one_form(value) == wanted


def _one_form(number: float) -> float:
    double = as_double(number)
    return number if double is None else double


def compares(terms: list[tuple[str, float]]) -> Test:
    """Matches a number for which all of these comparisons are true."""
    tests = tuple((COMPARISONS[sign], _one_form(bound)) for sign, bound in terms)

    def takes(value: Any) -> bool:
        double = as_double(value) if is_number(value) else None
        return double is not None and all(holds(double, bound) for holds, bound in tests)

    return takes


def prefix(start: str) -> Test:
    return lambda value: value.__class__ is str and value.startswith(start)


def suffix(end: str) -> Test:
    return lambda value: value.__class__ is str and value.endswith(end)


def equals_ignore_case(text: str) -> Test:
    matches = re.compile(_in_any_case(text), re.DOTALL).fullmatch
    return lambda value: value.__class__ is str and matches(value) is not None


def prefix_ignore_case(start: str) -> Test:
    matches = re.compile(_in_any_case(start), re.DOTALL).match
    return lambda value: value.__class__ is str and matches(value) is not None


def suffix_ignore_case(end: str) -> Test:
    finds = re.compile(_in_any_case(end) + r"\Z", re.DOTALL).search
    longest = sum(max(map(len, _forms(character))) for character in end)
    return lambda value: value.__class__ is str and finds(value, max(0, len(value) - longest)) is not None


def _in_any_case(text: str) -> str:
    """Each character in lower or upper case; the text is not casefolded as a whole, so that ß equals SS but never
    ss."""
    return "".join(f"(?:{'|'.join(map(re.escape, _forms(character)))})" for character in text)


def _forms(character: str) -> list[str]:
    # Above U+FFFF the engine sees surrogates, which have no case.
    return sorted({character.lower(), character.upper()}) if ord(character) <= 0xFFFF else [character]


def wildcard(pieces: list[str]) -> Test:
    """Text that consists of the pieces in this order, with anything between them.

    The leftmost match is sufficient for every piece in the middle, so there is no backtracking: an untrusted pattern
    cannot make it slow, unlike a regular expression with several `.*`.
    """
    first, last, middle = pieces[0], pieces[-1], pieces[1:-1]
    if len(pieces) == 1:
        return lambda value: value.__class__ is str and value == first
    shortest = len(first) + len(last)

    def takes(value: Any) -> bool:
        if value.__class__ is not str or len(value) < shortest:
            return False
        if not value.startswith(first) or not value.endswith(last):
            return False
        return _in_order(value, middle, len(first), len(value) - len(last))

    return takes


def _in_order(value: str, pieces: Iterable[str], start: int, end: int) -> bool:
    for piece in pieces:
        found = value.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


def wildcard_pieces(text: str) -> list[str]:
    r"""The pieces between the stars, with `\*` and `\\` unescaped. Raises ValueError."""
    pieces, position = [""], 0
    while position < len(text):
        character = text[position]
        if character == "*":
            if text.startswith("**", position):
                raise ValueError("has two stars in a row")
            pieces.append("")
        elif character == "\\":
            position += 1
            if text[position : position + 1] not in ("*", "\\"):
                raise ValueError("has a backslash that is followed by neither * nor another backslash")
            pieces[-1] += text[position]
        else:
            pieces[-1] += character
        position += 1
    return pieces


# Other text is not parsed: most text is not an address, and a failed parse costs ten times a failed search.
LOOKS_LIKE_ONE = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F:]*:[0-9a-fA-F:]*", re.ASCII)
LONGEST_ADDRESS = 39


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address of a text, IPv4 if it is mapped to IPv6; None if it is not an address."""
    # Checked first, so that the cached texts are short.
    return _read(text) if len(text) <= LONGEST_ADDRESS else None


@lru_cache(maxsize=4096)
def _read(text: str) -> IPv4Address | IPv6Address | None:
    if not LOOKS_LIKE_ONE.fullmatch(text):
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address


def is_address(address: IPv4Address | IPv6Address) -> Test:
    return lambda value: value.__class__ is str and read_address(value) == address


def within(network: IPv4Network | IPv6Network) -> Test:
    version, first, last = network.version, int(network.network_address), int(network.broadcast_address)

    def takes(value: Any) -> bool:
        address = read_address(value) if value.__class__ is str else None
        return address is not None and address.version == version and first <= int(address) <= last

    return takes


def read_network(text: str) -> IPv4Network | IPv6Network:
    """The network of a text such as 10.0.0.0/24. Raises ValueError."""
    start, slash, bits = text.partition("/")
    address = read_address(start)
    if not slash or address is None or not re.fullmatch(r"\d{1,3}", bits, re.ASCII):
        raise ValueError("is not a network")
    if int(bits) >= address.max_prefixlen:
        raise ValueError(f"has a mask of {bits} bits, but {address.max_prefixlen - 1} is the maximum")
    return ip_network((address, int(bits)), strict=False)


def only_entry(mapping: Mapping[Any, Any], where: str) -> tuple[Any, Any]:
    if len(mapping) != 1:
        names = ", ".join(shown(name) for name in mapping) or "nothing"
        raise InvalidPattern(where, f"has {names}", "name one operator; write two entries of the list for two")
    return next(iter(mapping.items()))


def text_of(operand: Any, where: str) -> str:
    if not isinstance(operand, str):
        raise InvalidPattern(where, f"{shown(operand)} is not a text", "put it in quotes")
    return str(operand)


def wildcard_of(operand: Any, where: str) -> list[str]:
    text = text_of(operand, where)
    try:
        return wildcard_pieces(text)
    except ValueError as error:
        raise InvalidPattern(
            where, f"{shown(text)} {error}", r"write * for any text, \* and \\ for themselves"
        ) from None


def comparable(operand: Any, where: str) -> float:
    if not is_number(operand) or as_double(operand) is None:
        raise InvalidPattern(
            where, f"{shown(operand)} is not a number that can be compared", "use one of up to 15 digits"
        )
    return operand  # type: ignore[no-any-return]


TestReader = Callable[[Any, str], Test]


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
    if not is_number(value):
        raise InvalidPattern(where, f"{shown(value)} is neither a text nor a number", "only those can be left out")
    return equals(comparable(value, where))


def _not_empty(operand: Any, where: str) -> str:
    text = text_of(operand, where)
    if not text:
        raise InvalidPattern(where, "is an empty text, which every text begins and ends with", "name a longer one")
    return text


KINDS: dict[str, tuple[str, TestReader]] = {
    "prefix": ("what begins with {}", lambda operand, where: prefix(_not_empty(operand, where))),
    "suffix": ("what ends with {}", lambda operand, where: suffix(_not_empty(operand, where))),
    "equals-ignore-case": ("{} in any case", lambda operand, where: equals_ignore_case(text_of(operand, where))),
    "wildcard": ("what is like {}", lambda operand, where: wildcard(wildcard_of(operand, where))),
}


MatcherReader = Callable[[Any, str], Matcher]


def read_matcher(entry: Any, where: str) -> Matcher:
    if isinstance(entry, str):
        return _text(str(entry))
    if entry is None or entry.__class__ is bool:
        return Matcher(shown(entry), lambda value: value is entry)
    if is_number(entry):
        if entry.__class__ is float and not math.isfinite(entry):
            raise InvalidPattern(where, f"{entry} is not a number that JSON knows", "name a finite one")
        return Matcher(shown(entry), equals(entry))
    if isinstance(entry, Mapping):
        name, operand = only_entry(entry, where)
        if name not in OPERATORS:
            raise InvalidPattern(where, f"{shown(name)} is not an operator", f"use one of {', '.join(OPERATORS)}")
        return OPERATORS[name](operand, f"{where}.{name}")
    raise InvalidPattern(where, f"{shown(entry)} is not a value", "name a text, a number, true, false or null")


def _text(text: str) -> Matcher:
    address = read_address(text)
    if address is not None:
        return Matcher(shown(text), is_address(address))
    return Matcher(shown(text), lambda value: value == text, literal=text)


def _exactly(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    return Matcher(shown(text), lambda value: value == text, literal=text)


def _prefix(operand: Any, where: str) -> Matcher:
    if isinstance(operand, Mapping):
        text = _any_case(operand, where)
        return Matcher(f"begins with {shown(text)} in any case", prefix_ignore_case(text))
    text = text_of(operand, where)
    return Matcher(f"begins with {shown(text)}", prefix(text))


def _suffix(operand: Any, where: str) -> Matcher:
    if isinstance(operand, Mapping):
        text = _any_case(operand, where)
        return Matcher(f"ends with {shown(text)} in any case", suffix_ignore_case(text))
    text = text_of(operand, where)
    return Matcher(f"ends with {shown(text)}", suffix(text))


def _any_case(operand: Mapping[Any, Any], where: str) -> str:
    name, text = only_entry(operand, where)
    if name != "equals-ignore-case":
        raise InvalidPattern(where, f"{shown(name)} cannot stand here", "use a text, or equals-ignore-case with a text")
    return text_of(text, f"{where}.{name}")


def _equals_ignore_case(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    return Matcher(f"{shown(text)} in any case", equals_ignore_case(text))


def _wildcard(operand: Any, where: str) -> Matcher:
    return Matcher(f"like {shown(operand)}", wildcard(wildcard_of(operand, where)))


def _exists(operand: Any, where: str) -> Matcher:
    if operand is True:
        return Matcher("present", lambda value: True)
    if operand is False:
        return Matcher("absent", lambda value: False, absent=True)
    raise InvalidPattern(where, f"is {shown(operand)}", "say true or false")


def _cidr(operand: Any, where: str) -> Matcher:
    text = text_of(operand, where)
    try:
        network = read_network(text)
    except ValueError as error:
        raise InvalidPattern(where, f"{shown(text)} {error}", "write it as 10.0.0.0/24 or 2001:db8::/32") from None
    return Matcher(f"within {network}", within(network))


def _numeric(operand: Any, where: str) -> Matcher:
    if not isinstance(operand, list | tuple) or len(operand) not in (2, 4):
        raise InvalidPattern(where, f"is {shown(operand)}", 'write a list such as [">", 0] or [">", 0, "<=", 5]')
    terms = [(_sign(operand[at], where), comparable(operand[at + 1], where)) for at in range(0, len(operand), 2)]
    if len(terms) == 2:
        _check_range(terms, where)
    words = " and ".join(f"{WORDS[sign]} {shown(bound)}" for sign, bound in terms)
    return Matcher(words, compares(terms))


def _sign(sign: Any, where: str) -> str:
    if not isinstance(sign, str) or sign not in COMPARISONS:
        raise InvalidPattern(where, f"{shown(sign)} is not a comparison", f"use one of {' '.join(COMPARISONS)}")
    return sign


def _check_range(terms: list[tuple[str, float]], where: str) -> None:
    (low, bottom), (high, top) = terms
    if low not in (">", ">=") or high not in ("<", "<="):
        raise InvalidPattern(where, f"has {low} and {high}", "a range has > or >= first, then < or <=")
    if not bottom < top:
        raise InvalidPattern(where, f"{shown(bottom)} is not below {shown(top)}", "widen the range")


OPERATORS: dict[str, MatcherReader] = {
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
