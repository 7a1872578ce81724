"""Strings worth trying: by length, by format, and by what the patterns of both sides take and do not take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from duebox.contracts.compat.language import BEGIN, END, LAST, Term, Terms
from duebox.contracts.compat.regex import term_of
from duebox.contracts.compat.words import Schema

_FORMATS = {
    "date": ("2026-01-31", "2027-12-01"),
    "date-time": ("2026-01-31T09:00:00Z", "2027-12-01T09:00:00.5+02:00"),
    "duration": ("P1D", "PT36H"),
    "email": ("ada@example.org", "a@b.co"),
    "hostname": ("example.org", "a.co"),
    "idn-email": ("ada@example.org", "a@b.co"),
    "idn-hostname": ("example.org", "a.co"),
    "ipv4": ("192.0.2.1", "198.51.100.17"),
    "ipv6": ("2001:db8::1", "::1"),
    "iri": ("https://example.org/", "urn:a"),
    "iri-reference": ("/a", "/b/c"),
    "json-pointer": ("/a", "/b/0"),
    "regex": ("a", "^b$"),
    "relative-json-pointer": ("0", "1/a"),
    "time": ("09:00:00Z", "17:30:00+02:00"),
    "uri": ("https://example.org/", "urn:a:b"),
    "uri-reference": ("/a", "/b/c"),
    "uri-template": ("/a", "/b/{c}"),
    "uuid": ("018f2f6a-0000-7000-8000-000000000000", "6f1e7c44-9b52-4f7f-a0c1-d11198d3a26f"),
}
_PLAIN = ("a", "")
# For patterns that cannot be read: one of them may fit.
_GUESSES = ("A", "0", "1", "aa", "AA", "abc", "ABC", "123", "a1", "A1", "a-b", "a_b", "a b", "a.b", "é", " ", "+1", "-")
_LONGEST = 5_000
_MOST_STEPS = 30_000
_NICE = [*map(ord, "a0A -_.")]
_SURROGATES = (0xD800, 0xDFFF)


def strings(schemas: Sequence[Schema]) -> Iterator[str]:
    formats = [schema["format"] for schema in schemas if schema.get("format") in _FORMATS]
    yield from (text for each in formats for text in _FORMATS[each])
    yield from _PLAIN
    patterns = tuple(dict.fromkeys(schema["pattern"] for schema in schemas if "pattern" in schema))
    lengths = tuple(sorted(_lengths(schemas)))
    if patterns:
        yield from matching(patterns, lengths)
        yield from (*_GUESSES, *(text for texts in _FORMATS.values() for text in texts))
    yield from ("a" * length for length in lengths)


def _lengths(schemas: Sequence[Schema]) -> set[int]:
    bounds = {schema[word] for schema in schemas for word in ("minLength", "maxLength") if word in schema}
    return {int(bound) + by for bound in bounds for by in (-1, 0, 1) if 0 <= bound + by <= _LONGEST}


@lru_cache(maxsize=256)
def matching(patterns: tuple[str, ...], lengths: tuple[int, ...] = ()) -> tuple[str, ...]:
    """For each set of patterns that a string can match at once a shortest one, and one of each of the lengths."""
    return tuple(_walked(patterns, lengths))


def _walked(patterns: Sequence[str], lengths: Sequence[int]) -> Iterator[str]:
    terms = Terms()
    wanted = [term for pattern in patterns if (term := term_of(pattern, terms)) is not None]
    if not wanted:
        return
    alphabet = [*_alphabet(wanted)]
    layer = {tuple(terms.after(term, BEGIN) for term in wanted): ""}
    seen, known, steps, length = set(layer), set[tuple[object, ...]](), 0, 0
    while layer and steps < _MOST_STEPS:
        for state, text in layer.items():
            takes = tuple(terms.after(term, END).empty for term in state)
            for mark in [takes] + [(takes, length)] * (length in lengths):
                if mark not in known:
                    known.add(mark)
                    yield text
        steps += len(layer) * len(alphabet)
        following = {
            tuple(terms.after(term, char) for term in state): text + chr(char)
            for state, text in layer.items()
            for char in reversed(alphabet)
        }
        length += 1
        if not following.keys() - seen and length > max(lengths, default=0):
            return
        seen |= following.keys()
        layer = following


def _alphabet(terms: Sequence[Term]) -> Iterator[int]:
    """One character for each group that no pattern tells apart."""
    cuts = {0, LAST + 1, _SURROGATES[0], _SURROGATES[1] + 1}
    for low, high in {pair for term in terms for pair in _ranges(term, set())}:
        cuts |= {low, high + 1}
    borders = sorted(cut for cut in cuts if cut <= LAST + 1)
    groups = [range(low, high) for low, high in pairwise(borders) if low not in _SURROGATES]
    yield from sorted(map(_nicest, groups), key=lambda char: (not chr(char).isalnum(), not chr(char).islower(), char))


def _nicest(group: range) -> int:
    readable = (char for char in group[:200] if chr(char).isprintable())
    return next((char for char in _NICE if char in group), next(readable, group[0]))


def _ranges(term: object, seen: set[int]) -> Iterator[tuple[int, int]]:
    if isinstance(term, frozenset):
        for each in term:
            yield from _ranges(each, seen)
    elif isinstance(term, Term) and id(term) not in seen:
        seen.add(id(term))
        if term.kind == "chars":
            yield from term.parts
        else:
            for part in term.parts:
                yield from _ranges(part, seen)
