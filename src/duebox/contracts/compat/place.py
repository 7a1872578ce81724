"""A place in an event, as both sides see it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from duebox.contracts.compat.words import ANYTHING, Schema, as_schema


class Place(NamedTuple):
    """The schemas that look at one value: the writer's, all of which it meets, and the reader's."""

    writer: tuple[Schema, ...]
    reader: tuple[Schema, ...]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(id, self.writer)), tuple(map(id, self.reader))


def of_name(schemas: Iterable[Schema], name: str) -> tuple[Schema, ...]:
    """What schemas of an object say about one of its properties."""
    return _unique(each for schema in schemas for each in _about_name(schema, name))


def _about_name(schema: Schema, name: str) -> Iterator[Schema]:
    declared = schema.get("properties", {})
    patterns = [each for pattern, each in schema.get("patternProperties", {}).items() if matches(pattern, name)]
    if name in declared:
        yield as_schema(declared[name])
    yield from map(as_schema, patterns)
    if name not in declared and not patterns:
        yield as_schema(schema.get("additionalProperties", ANYTHING))
        yield as_schema(schema.get("unevaluatedProperties", ANYTHING))


def of_item(schemas: Iterable[Schema], index: int) -> tuple[Schema, ...]:
    """What schemas of an array say about one of its items."""
    return _unique(_about_item(schema, index) for schema in schemas)


def _about_item(schema: Schema, index: int) -> Schema:
    first = schema.get("prefixItems", ())
    return as_schema(first[index] if index < len(first) else schema.get("items", ANYTHING))


def matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # a pattern that only the validator understands
        return False


def _unique(schemas: Iterable[Schema]) -> tuple[Schema, ...]:
    return tuple({id(each): each for each in schemas if each}.values())
