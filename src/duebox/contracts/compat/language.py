"""The strings that a pattern takes, character by character: regular expressions with derivatives.

What is left of an expression after one character is again an expression (Brzozowski, 1964). So several patterns can be
walked at the same time, and the shortest string found that one takes and another does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
BEGIN, END = LAST + 1, LAST + 2
"""Two characters beyond Unicode mark the ends of a string, so that `^` and `$` are characters too."""
ENDLESS = -1


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression. Two of the same content are the same object, so they compare and hash quickly."""

    kind: str
    parts: tuple[Any, ...]
    empty: bool
    """Whether it takes the empty string."""


class Terms:
    """Makes expressions, each in its simplest form, and follows them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}
        self._after: dict[tuple[Term, int], Term] = {}
        self.nothing = self._make("chars", (), empty=False)
        self.nil = self._make("nil", (), empty=True)
        self.all = self.repeat(self.chars(((0, END),)), 0, ENDLESS)

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
        parts = {inner for term in terms for inner in (term.parts[0] if term.kind == "either" else (term,))}
        parts.discard(self.nothing)
        if self.all in parts:
            return self.all
        if len(parts) < 2:
            return parts.pop() if parts else self.nothing
        return self._make("either", (frozenset(parts),), empty=any(part.empty for part in parts))

    def both(self, terms: Iterable[Term]) -> Term:
        parts = {inner for term in terms for inner in (term.parts[0] if term.kind == "both" else (term,))}
        parts.discard(self.all)
        if self.nothing in parts:
            return self.nothing
        if len(parts) < 2:
            return parts.pop() if parts else self.all
        return self._make("both", (frozenset(parts),), empty=all(part.empty for part in parts))

    def never(self, term: Term) -> Term:
        if term.kind == "never":
            inner: Term = term.parts[0]
            return inner
        return self._make("never", (term,), empty=not term.empty)

    def repeat(self, term: Term, least: int, most: int) -> Term:
        if most == 0 or term is self.nil:
            return self.nil
        if term is self.nothing:
            return self.nothing if least else self.nil
        least = 0 if term.empty else least
        if (least, most) == (1, 1):
            return term
        return self._make("repeat", (term, least, most), empty=least == 0)

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
            case "never", (inner,):
                return self.never(self.after(inner, char))
            case "repeat", (inner, least, most):
                left = self.repeat(inner, max(least - 1, 0), most if most == ENDLESS else most - 1)
                return self.then(self.after(inner, char), left)
        return self.nothing
