"""A pattern of a schema as a regular expression with derivatives. Python's own parser reads it.

What cannot be said that way (backreferences, word boundaries, looking behind) is left out: the strings that come of it
are guesses, and the validator has the last word on each.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from duebox.contracts.compat.language import BEGIN, END, ENDLESS, LAST, Ranges, Term, Terms

_parser: Any = importlib.import_module("re._parser")  # private, and the only one in the standard library

Node = tuple[Any, Any]

_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32), (0xA0, 0xA0))
_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
_BEGINNINGS, _ENDS = ("AT_BEGINNING", "AT_BEGINNING_STRING"), ("AT_END", "AT_END_STRING")
# Words of other dialects that Python spells otherwise; letters of a script are letters to us.
_DIALECT = ((r"\(\?<(?![=!])", "(?P<"), (r"\\[pP]\{(Lu|Uppercase)\}", "A-Z"), (r"\\[pP]\{(Ll|Lowercase)\}", "a-z"),
            (r"\\[pP]\{(L|Letter|Alphabetic)\}", "a-zA-Z"), (r"\\[pP]\{(N|Nd|Number)\}", "0-9"))  # fmt: skip


def complement(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGIT, "CATEGORY_NOT_DIGIT": complement(_DIGIT), "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_WORD": complement(_WORD), "CATEGORY_SPACE": _SPACE, "CATEGORY_NOT_SPACE": complement(_SPACE),
}  # fmt: skip


def term_of(pattern: str, terms: Terms) -> Term | None:
    """The expression of all strings in which the pattern is found, between BEGIN and END; None if it is unreadable."""
    try:
        nodes = _parser.parse(_in_python(pattern))
    except (re.error, OverflowError, RecursionError):
        return None
    return terms.then(terms.all, _sequence(nodes, terms.all, terms))


def _in_python(pattern: str) -> str:
    for foreign, own in _DIALECT:
        if own.startswith("("):
            pattern = re.sub(foreign, own, pattern)
        else:  # in a class the ranges stand for themselves
            pattern = re.sub(rf"(\[[^\]]*){foreign}", rf"\g<1>{own}", pattern)
            pattern = re.sub(foreign, f"[{own}]", pattern)
    return pattern


def _sequence(nodes: Iterable[Node], rest: Term, terms: Terms) -> Term:
    """The nodes and what follows them; from the right, because looking ahead sees what follows."""
    for kind, value in reversed(list(nodes)):
        rest = _node(str(kind), value, rest, terms)
    return rest


def _node(kind: str, value: Any, rest: Term, terms: Terms) -> Term:
    match kind:
        case "BRANCH":
            return terms.either(_sequence(each, rest, terms) for each in value[1])
        case "SUBPATTERN":
            return _sequence(value[3], rest, terms)
        case "ATOMIC_GROUP":
            return _sequence(value, rest, terms)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return terms.then(_repeated(value, terms), rest)
        case "ASSERT" | "ASSERT_NOT":
            return _looking_ahead(kind, value, rest, terms)
        case "AT":
            return terms.then(_edge(str(value), terms), rest)
    ranges = _ranges(kind, value)
    return rest if ranges is None else terms.then(terms.chars(ranges), rest)


def _repeated(value: tuple[int, Any, Sequence[Node]], terms: Terms) -> Term:
    least, most, nodes = value
    return terms.repeat(_sequence(nodes, terms.nil, terms), least, ENDLESS if most is _parser.MAXREPEAT else most)


def _looking_ahead(kind: str, value: tuple[int, Any], rest: Term, terms: Terms) -> Term:
    direction, nodes = value
    if direction < 0:
        return rest
    seen = _sequence(nodes, terms.all, terms)
    return terms.both([seen if kind == "ASSERT" else terms.never(seen), rest])


def _edge(where: str, terms: Terms) -> Term:
    if where in _BEGINNINGS:
        return terms.chars(((BEGIN, BEGIN),))
    return terms.chars(((END, END),)) if where in _ENDS else terms.nil


def _ranges(kind: str, value: Any) -> Ranges | None:
    match kind:
        case "LITERAL":
            return ((value, value),)
        case "NOT_LITERAL":
            return complement(((value, value),))
        case "ANY":
            return complement(_LINE_ENDS)
        case "RANGE":
            return (value,)
        case "CATEGORY":
            return _CATEGORIES.get(str(value), ())
        case "IN":
            inner = [(str(each), what) for each, what in value]
            found = tuple(pair for each, what in inner if each != "NEGATE" for pair in _ranges(each, what) or ())
            return complement(found) if ("NEGATE", None) in inner else found
    return None
