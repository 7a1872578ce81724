"""What the writer is held to: a schema in which undeclared properties are refused.

The writer is strict and the reader is open: what is emitted may hold declared properties only, while the schema that
others read says nothing of undeclared ones. So a new optional property breaks nobody, in either direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

# Words whose subschemas look at the same value. Those under the other words look at a part of it.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas")
_NAMED_PARTS = ("properties", "patternProperties")
_NAMED_IN_PLACE = ("$defs", "definitions", "dependentSchemas")
_PARTS = ("items", "prefixItems", "additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_SAYS_IT_ALREADY = ("additionalProperties", "unevaluatedProperties")
_DEEPEST = 32


def closed(schema: Mapping[str, Any]) -> Schema:
    """The schema, and wherever it declares properties and says nothing about others: no others."""
    return _closed(schema, schema)


def _closed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Schema:
    strict = _with_closed_parts(schema, root)
    if not any(word in schema for word in _SAYS_IT_ALREADY) and _declares(schema, root, _DEEPEST):
        # The first sees through "allOf" and the like and through references; the second is the quicker one.
        combined = any(word in schema for word in ("$ref", "if", *_IN_PLACE))
        strict["unevaluatedProperties" if combined else "additionalProperties"] = False
    return strict


def _with_closed_parts(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Schema:
    def part(value: Any) -> Any:
        return _closed(value, root) if isinstance(value, Mapping) else value

    def in_place(value: Any) -> Any:
        return _with_closed_parts(value, root) if isinstance(value, Mapping) else value

    strict = dict(schema)
    for word, value in schema.items():
        if isinstance(value, Mapping) and word in _NAMED_PARTS:
            strict[word] = {name: part(each) for name, each in value.items()}
        elif word in _PARTS:
            strict[word] = [part(each) for each in value] if isinstance(value, list) else part(value)
        elif isinstance(value, Mapping) and word in _NAMED_IN_PLACE:
            # Who refers to a definition is closed where he stands.
            strict[word] = {name: in_place(each) for name, each in value.items()}
        elif word in _IN_PLACE:
            strict[word] = [in_place(each) for each in value] if isinstance(value, list) else in_place(value)
    return strict


def _declares(schema: Any, root: Mapping[str, Any], depth: int) -> bool:
    """Whether it names properties of the value it looks at, itself or in what it is combined of."""
    if not isinstance(schema, Mapping) or depth == 0:
        return False
    return "properties" in schema or any(_declares(each, root, depth - 1) for each in combined_of(schema, root))


def combined_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas that look at the same value, the one referred to included."""
    if "$ref" in schema:
        yield resolved(schema["$ref"], root)
    for word in _IN_PLACE:
        value = schema.get(word)
        if isinstance(value, list):
            yield from value
        elif word == "dependentSchemas" and isinstance(value, Mapping):
            yield from value.values()
        elif value is not None:
            yield value


def resolved(reference: str, root: Mapping[str, Any]) -> Any:
    """What a local reference like `#/$defs/line` points to; an empty schema when there is nothing."""
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if name.isdigit() and int(name) < len(found) else {}
        else:
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found
