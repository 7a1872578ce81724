"""The words of JSON Schema: which of them hold other schemas, which only annotate, and what values are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = dict[str, Any]

ONE = (
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")

SILENT = frozenset({
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "definitions", "deprecated",
    "examples", "readOnly", "title", "writeOnly", "x-event", "x-pii",
})  # fmt: skip
"""Annotations whose change means nothing to whoever reads events."""

CONSTRAINTS = frozenset({
    *ONE, *SEVERAL, "properties", "patternProperties", "dependentSchemas", "$dynamicRef", "$ref", "const",
    "contentEncoding", "contentMediaType", "contentSchema", "dependentRequired", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format",
    "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "pattern", "required", "type", "uniqueItems",
})  # fmt: skip
"""Words that say which events there may be. What is in neither set is an annotation that may carry a meaning."""

ANYTHING: Schema = {}
NOTHING: Schema = {"not": {}}


def as_schema(part: Any) -> Schema:
    """A schema as a dict: `true` takes anything, `false` nothing."""
    if isinstance(part, dict):
        return part
    return NOTHING if part is False else ANYTHING


def subschemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    for word, value in schema.items():
        if word in ONE:
            yield value
        elif word in SEVERAL and isinstance(value, list):
            yield from value
        elif word in NAMED and isinstance(value, dict):
            yield from value.values()


def rewritten(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy in which every schema, the inner ones first, is what `change` makes of it."""
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    for word, value in schema.items():
        if word in ONE:
            copy[word] = rewritten(value, change)
        elif word in SEVERAL and isinstance(value, list):
            copy[word] = [rewritten(each, change) for each in value]
        elif word in NAMED and isinstance(value, dict):
            copy[word] = {name: rewritten(each, change) for name, each in value.items()}
    return change(copy)


def canonical(value: Any) -> str:
    """The same text for the same JSON value: 1 and 1.0 are one number, true is none."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
