"""The ways to satisfy a schema, and the corners of one: `anyOf`, `oneOf`, `if` and the like taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.words import Schema, as_schema

Way = tuple[Schema, ...]
"""Schemas that a value meets together; each is looked at without what it is combined of."""

Within = frozenset[int]

_MOST_WAYS = 24
_MOST_PAIRS = 10


def ways(parts: Sequence[Schema], document: Document) -> list[Way]:
    """How a value can be valid under all parts: one branch chosen for each choice. Some may be impossible."""
    choices = [_ways(part, document, frozenset()) for part in parts]
    return _products(choices)


def corners(parts: Sequence[Schema], document: Document) -> list[Way]:
    """Where it pays to look: what a value must meet anyway, and that together with each condition and branch."""
    must = tuple(each for part in parts for each in _must(part, document, frozenset()))
    found = [must]
    for schema in must:
        for branch in _branches(schema, document):
            found += [_unique((*must, *way)) for way in _ways(branch, document, frozenset(map(id, must)))]
        for one, other in islice(combinations(schema.get("oneOf", ()), 2), _MOST_PAIRS):
            # A value that two variants take is refused.
            found += [_unique((*must, *way)) for way in ways([as_schema(one), as_schema(other)], document)]
    return list({tuple(map(id, way)): way for way in found}.values())


def _ways(part: Schema, document: Document, within: Within) -> list[Way]:
    part = as_schema(part)
    if id(part) in within:  # it is combined of itself, which asks for nothing more
        return [()]
    within |= {id(part)}
    choices: list[list[Way]] = [[(part,)]]
    for inner in _certain(part, document):
        choices.append(_ways(inner, document, within))
    for word in ("anyOf", "oneOf"):
        if word in part:
            choices.append([way for branch in part[word] for way in _ways(branch, document, within)])
    if "if" in part:
        choices.append(_conditional(part, document, within))
    for name, inner in part.get("dependentSchemas", {}).items():
        with_it = [({"required": [name]}, *way) for way in _ways(inner, document, within)]
        choices.append([(), *with_it])
    return _products(choices)


def _conditional(part: Schema, document: Document, within: Within) -> list[Way]:
    met = [_ways(part["if"], document, within), _ways(part.get("then", {}), document, within)]
    return [*_ways(part.get("else", {}), document, within), *_products(met)]


def _certain(part: Schema, document: Document) -> Iterator[Schema]:
    if "$ref" in part:
        yield document.target(part)
    yield from (as_schema(each) for each in part.get("allOf", ()))


def _must(part: Schema, document: Document, within: Within) -> Iterator[Schema]:
    if id(part) not in within:
        yield part
        for inner in _certain(part, document):
            yield from _must(inner, document, within | {id(part)})


def _branches(schema: Schema, document: Document) -> Iterator[Schema]:
    for word in ("anyOf", "oneOf"):
        yield from (as_schema(each) for each in schema.get(word, ()))
    for word in ("if", "then", "else", "not"):
        if word in schema:
            yield as_schema(schema[word])
    if "if" in schema and "then" in schema:
        yield {"allOf": [schema["if"], schema["then"]]}
    for name, inner in schema.get("dependentSchemas", {}).items():
        yield {"required": [name]}
        yield {"required": [name], "allOf": [inner]}


def _products(choices: Sequence[Sequence[Way]]) -> list[Way]:
    """One of each, put together: every single one at least once, and more combinations while there is room."""
    if not all(choices):
        return []
    first = [options[0] for options in choices]
    star = ([*first[:at], option, *first[at + 1 :]] for at, options in enumerate(choices) for option in options)
    chosen = [*star, *islice(product(*choices), _MOST_WAYS)]
    merged = (_unique(tuple(schema for way in each for schema in way)) for each in chosen)
    return list({tuple(map(id, way)): way for way in merged}.values())


def _unique(way: Way) -> Way:
    return tuple({id(schema): schema for schema in way}.values())
