"""Where and by which word a schema refuses a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.place import matches
from duebox.contracts.compat.types import allowed_types, types_of
from duebox.contracts.compat.words import CONSTRAINTS, Schema, as_schema

Step = str | int

_LOOKED_INTO = frozenset({
    "$ref", "additionalProperties", "allOf", "dependentSchemas", "else", "if", "items", "maxContains", "minContains",
    "patternProperties", "prefixItems", "properties", "required", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_BELONGS_TO = {"contains": ("minContains", "maxContains")}


class Refusal(NamedTuple):
    path: tuple[Step, ...]
    keyword: str
    limit: Any
    """What the schema says there."""
    value: Any
    schema: Schema


def refusals(document: Document, value: Any) -> list[Refusal]:
    """All that a schema has against a value; one that names nothing in particular where no word is to blame alone."""
    found = list(_Walk(document).at(document.root, value, ()))
    if not found and not document.takes((document.root,), value):
        found = [Refusal((), "unevaluatedProperties", False, value, document.root)]
    return found


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.seen: set[tuple[int, tuple[Step, ...]]] = set()

    def at(self, part: Any, value: Any, path: tuple[Step, ...]) -> Iterator[Refusal]:
        schema = as_schema(part)
        if (id(schema), path) not in self.seen:
            self.seen.add((id(schema), path))
            yield from self._words(schema, value, path)

    def _words(self, schema: Schema, value: Any, path: tuple[Step, ...]) -> Iterator[Refusal]:
        yield from self._in_place(schema, value, path)
        if isinstance(value, dict):
            yield from self._in_object(schema, value, path)
        if isinstance(value, list):
            yield from self._in_array(schema, value, path)
        for word in sorted(schema.keys() & CONSTRAINTS - _LOOKED_INTO):
            if not self.document.takes_word(schema, (word, *_BELONGS_TO.get(word, ())), value):
                yield from self._by_word(schema, word, value, path)

    def _by_word(self, schema: Schema, word: str, value: Any, path: tuple[Step, ...]) -> Iterator[Refusal]:
        """The word itself, or what is behind it when only one variant is for values of this type."""
        if word in ("anyOf", "oneOf") and len(schema[word]) > 1:
            fitting = [each for each in map(as_schema, schema[word]) if self._is_for(each, value)]
            if len(fitting) == 1 and not self.document.takes(fitting, value):
                yield from self.at(fitting[0], value, path)
                return
        yield Refusal(path, word, schema[word], value, schema)

    def _is_for(self, part: Schema, value: Any) -> bool:
        while "$ref" in part and "type" not in part:
            part = self.document.target(part)
        return bool(set(types_of(value)) & set(allowed_types([part])))

    def _in_place(self, schema: Schema, value: Any, path: tuple[Step, ...]) -> Iterator[Refusal]:
        if "$ref" in schema:
            yield from self.at(self.document.target(schema), value, path)
        for part in schema.get("allOf", ()):
            yield from self.at(part, value, path)
        if "if" in schema:
            met = self.document.takes((as_schema(schema["if"]),), value)
            yield from self.at(schema.get("then" if met else "else", True), value, path)

    def _in_object(self, schema: Schema, value: dict[str, Any], path: tuple[Step, ...]) -> Iterator[Refusal]:
        for name in schema.get("required", ()):
            if name not in value:
                yield Refusal((*path, name), "required", True, value, schema)
        for name, part in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self.at(part, value, path)
        for name, each in value.items():
            for word, part in _about(schema, name):
                if part is False and word == "additionalProperties":
                    yield Refusal((*path, name), word, False, each, schema)
                else:
                    yield from self.at(part, each, (*path, name))

    def _in_array(self, schema: Schema, value: list[Any], path: tuple[Step, ...]) -> Iterator[Refusal]:
        first = schema.get("prefixItems", ())
        for index, each in enumerate(value):
            part = first[index] if index < len(first) else schema.get("items", True)
            yield from self.at(part, each, (*path, index))


def _about(schema: Schema, name: str) -> Iterator[tuple[str, Any]]:
    known = name in schema.get("properties", {})
    if known:
        yield "properties", schema["properties"][name]
    for pattern, part in schema.get("patternProperties", {}).items():
        if matches(pattern, name):
            known = True
            yield "patternProperties", part
    if not known:
        yield "additionalProperties", schema.get("additionalProperties", True)
