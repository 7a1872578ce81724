"""Regular expressions with derivatives, to find strings that one pattern accepts and another does not.

What is left of an expression after one character is again an expression (Brzozowski, 1964). So several patterns can be
followed at the same time, to find the shortest string that one accepts and another refuses.

What cannot be expressed that way (backreferences, word boundaries, lookbehind) is left out. The strings found are
therefore guesses, and the validator decides about each.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
BEGIN, END = LAST + 1, LAST + 2
"""Two code points beyond Unicode mark the ends of a string, so that `^` and `$` can be treated as characters."""
UNLIMITED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression. Equal expressions are the same object, so they compare and hash quickly."""

    kind: str
    parts: tuple[Any, ...]
    empty: bool
    """Whether it accepts the empty string."""


class Terms:
    """Creates expressions in their simplest form, and derives them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}
        self._after: dict[tuple[Term, int], Term] = {}
        self.nothing = self.chars(())
        self.nil = self._make("nil", (), empty=True)
        self.all = self.repeat(self.chars(((0, END),)), 0, UNLIMITED)

    def _make(self, kind: str, parts: tuple[Any, ...], *, empty: bool) -> Term:
        return self._known.setdefault((kind, parts), Term(kind, parts, empty))

    def chars(self, ranges: Ranges) -> Term:
        return self._make("chars", ranges, empty=False)

    def then(self, first: Term, second: Term) -> Term:
        if self.nothing in (first, second):
            return self.nothing
        if first is self.nil or (first is self.all and second is self.all):
            return second
        return first if second is self.nil else self._make("then", (first, second), empty=first.empty and second.empty)

    def either(self, terms: Iterable[Term]) -> Term:
        return self._combined("either", terms, neutral=self.nothing, absorbing=self.all)

    def both(self, terms: Iterable[Term]) -> Term:
        return self._combined("both", terms, neutral=self.all, absorbing=self.nothing)

    def _combined(self, kind: str, terms: Iterable[Term], *, neutral: Term, absorbing: Term) -> Term:
        parts = {inner for term in terms for inner in (term.parts[0] if term.kind == kind else (term,))} - {neutral}
        if absorbing in parts:
            return absorbing
        if len(parts) < 2:
            return parts.pop() if parts else neutral
        empty = (any if kind == "either" else all)(part.empty for part in parts)
        return self._make(kind, (frozenset(parts),), empty=empty)

    def negated(self, term: Term) -> Term:
        if term.kind == "not":
            inner: Term = term.parts[0]
            return inner
        return self._make("not", (term,), empty=not term.empty)

    def repeat(self, term: Term, least: int, most: int) -> Term:
        if most == 0 or term is self.nil:
            return self.nil
        if term is self.nothing:
            return self.nothing if least else self.nil
        least = 0 if term.empty else least
        return term if (least, most) == (1, 1) else self._make("repeat", (term, least, most), empty=least == 0)

    def after(self, term: Term, char: int) -> Term:
        """What is left of an expression when a string begins with this character."""
        key = (term, char)
        if key not in self._after:
            self._after[key] = self._derived(term, char)
        return self._after[key]

    def _derived(self, term: Term, char: int) -> Term:
        match term.kind, term.parts:
            case "chars", ranges:
                return self.nil if any(low <= char <= high for low, high in ranges) else self.nothing
            case "then", (first, second):
                rest = self.then(self.after(first, char), second)
                return self.either([rest, self.after(second, char)]) if first.empty else rest
            case "either", (parts,):
                return self.either(self.after(part, char) for part in parts)
            case "both", (parts,):
                return self.both(self.after(part, char) for part in parts)
            case "not", (inner,):
                return self.negated(self.after(inner, char))
            case "repeat", (inner, least, most):
                left = self.repeat(inner, max(least - 1, 0), most if most == UNLIMITED else most - 1)
                return self.then(self.after(inner, char), left)
        return self.nothing


_parser: Any = importlib.import_module("re._parser")  # private, and the only one in the standard library


def complement(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32), (0xA0, 0xA0))
_NOT_LINE_END = complement(((10, 10), (13, 13), (0x2028, 0x2029)))
_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGIT, "CATEGORY_NOT_DIGIT": complement(_DIGIT), "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_WORD": complement(_WORD), "CATEGORY_SPACE": _SPACE, "CATEGORY_NOT_SPACE": complement(_SPACE),
}  # fmt: skip
_EDGES = {"AT_BEGINNING": BEGIN, "AT_BEGINNING_STRING": BEGIN, "AT_END": END, "AT_END_STRING": END}
# Unicode classes that Python's `re` does not know; ASCII is enough for examples.
_CLASSES = {"Lu|Uppercase": "A-Z", "Ll|Lowercase": "a-z", "L|Letter|Alphabetic": "a-zA-Z", "N|Nd|Number": "0-9"}


def term_of(pattern: str, terms: Terms) -> Term | None:
    """The expression of all strings in which the pattern is found, between BEGIN and END; None if it is unreadable."""
    try:
        nodes = _parser.parse(_in_python(pattern))
    except (re.error, OverflowError, RecursionError):
        return None
    return terms.then(terms.all, _sequence(nodes, terms.all, terms))


def _in_python(pattern: str) -> str:
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    for names, ranges in _CLASSES.items():
        unicode_class = rf"\\[pP]\{{({names})\}}"
        pattern = re.sub(rf"(\[[^\]]*){unicode_class}", rf"\g<1>{ranges}", pattern)
        pattern = re.sub(unicode_class, f"[{ranges}]", pattern)
    return pattern


def _sequence(nodes: Iterable[tuple[Any, Any]], rest: Term, terms: Terms) -> Term:
    """The nodes and what follows them, built from the right, because a lookahead applies to what follows."""
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
            least, most, nodes = value
            limit = UNLIMITED if most is _parser.MAXREPEAT else most
            return terms.then(terms.repeat(_sequence(nodes, terms.nil, terms), least, limit), rest)
        case "ASSERT" | "ASSERT_NOT":
            direction, nodes = value
            if direction < 0:
                return rest
            ahead = _sequence(nodes, terms.all, terms)
            return terms.both([ahead if kind == "ASSERT" else terms.negated(ahead), rest])
        case "AT":
            edge = _EDGES.get(str(value))
            return rest if edge is None else terms.then(terms.chars(((edge, edge),)), rest)
    ranges = _ranges(kind, value)
    return rest if ranges is None else terms.then(terms.chars(ranges), rest)


def _ranges(kind: str, value: Any) -> Ranges | None:
    match kind:
        case "LITERAL":
            return ((value, value),)
        case "NOT_LITERAL":
            return complement(((value, value),))
        case "ANY":
            return _NOT_LINE_END
        case "RANGE":
            return (value,)
        case "CATEGORY":
            return _CATEGORIES.get(str(value), ())
        case "IN":
            inner = [(str(each), what) for each, what in value]
            found = tuple(pair for each, what in inner if each != "NEGATE" for pair in _ranges(each, what) or ())
            return complement(found) if ("NEGATE", None) in inner else found
    return None
