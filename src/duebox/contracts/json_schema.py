"""Work with JSON Schema documents: subschemas, references, types, schemas closed for writers, default values.

Writers are strict, readers are not: an emitted event may have declared properties only, while the published schema
allows undeclared ones. So adding an optional property breaks no reader and no writer.

A new field that is required and has a default breaks nothing that reads through Duebox: older stored events get the
default before a handler sees them. Consumers outside see the event as it was stored, because JSON Schema itself does
not apply defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

# Keywords by what they hold: one schema, a list of schemas, schemas by name, or values.
_ONE = (
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_VALUES = ("const", "enum", "default", "examples")

# Keywords whose subschemas apply to the same value, and those whose subschemas apply to a part of it.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas")
_PARTS = (
    "properties", "patternProperties", "items", "prefixItems", "additionalProperties", "unevaluatedProperties",
    "unevaluatedItems",
)  # fmt: skip

IGNORED = frozenset({
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "definitions", "deprecated",
    "examples", "readOnly", "title", "writeOnly", "x-event", "x-pii",
})  # fmt: skip
"""Annotations whose change does not matter to consumers."""

CONSTRAINTS = frozenset({
    *_ONE, *_LIST, "properties", "patternProperties", "dependentSchemas", "$dynamicRef", "$ref", "const",
    "contentEncoding", "contentMediaType", "contentSchema", "dependentRequired", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required", "type", "uniqueItems",
})  # fmt: skip
"""Keywords that restrict values. A keyword in neither set is an annotation that may have a meaning."""

TYPES = ("object", "string", "number", "integer", "array", "boolean", "null")
ANYTHING: Schema = {}
NOTHING: Schema = {"not": {}}
NULL: Schema = {"type": "null"}


def as_schema(part: Any) -> Schema:
    """A schema as a dict: `true` accepts anything, `false` nothing."""
    if isinstance(part, dict):
        return part
    return NOTHING if part is False else ANYTHING


def with_subschemas(schema: Mapping[str, Any], change: Callable[[str, Any], Any]) -> Schema:
    """A copy in which each direct subschema is replaced by `change(keyword, subschema)`."""
    copy = dict(schema)
    for word, value in schema.items():
        if word in _ONE:
            copy[word] = change(word, value)
        elif word in _LIST and isinstance(value, list):
            copy[word] = [change(word, each) for each in value]
        elif word in _NAMED and isinstance(value, Mapping):
            copy[word] = {name: change(word, each) for name, each in value.items()}
    return copy


def rewritten(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """A copy in which every schema, the inner ones first, is replaced by `change(schema)`."""
    if not isinstance(schema, Mapping):
        return schema
    return change(with_subschemas(schema, lambda _, each: rewritten(each, change)))


def all_schemas(value: Any, root: Mapping[str, Any], seen: set[int] | None = None) -> Iterator[Any]:
    """Every schema inside of a value, and those that it refers to."""
    seen = set() if seen is None else seen
    if isinstance(value, list):
        for part in value:
            yield from all_schemas(part, root, seen)
    elif isinstance(value, Mapping) and id(value) not in seen:
        seen.add(id(value))
        yield value
        if isinstance(value.get("$ref"), str):
            yield from all_schemas(resolved(value["$ref"], root), root, seen)
        for word, part in value.items():
            if word in _NAMED and isinstance(part, Mapping):
                yield from all_schemas([*part.values()], root, seen)
            elif word not in _VALUES:
                yield from all_schemas(part, root, seen)


def has_references(schema: Any) -> bool:
    return any("$ref" in each or "$dynamicRef" in each for each in all_schemas(schema, {}))


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


def combined_with(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas that apply to the same value, the target of `$ref` included."""
    if "$ref" in schema:
        yield resolved(schema["$ref"], root)
    for word in _SAME_VALUE:
        value = schema.get(word)
        if isinstance(value, list):
            yield from value
        elif word == "dependentSchemas" and isinstance(value, Mapping):
            yield from value.values()
        elif value is not None:
            yield value


def schemas_of_property(schemas: Iterable[Mapping[str, Any]], name: str) -> tuple[Schema, ...]:
    """The subschemas of an object's schemas for one of its properties."""
    found = []
    for schema in schemas:
        declared = schema.get("properties", {})
        patterns = [each for pattern, each in schema.get("patternProperties", {}).items() if matches(pattern, name)]
        if name in declared or patterns:
            found += [*([declared[name]] if name in declared else []), *patterns]
        else:
            found += [schema.get(word, ANYTHING) for word in ("additionalProperties", "unevaluatedProperties")]
    return _without_repeats(found)


def schemas_of_item(schemas: Iterable[Mapping[str, Any]], index: int) -> tuple[Schema, ...]:
    """The subschemas of an array's schemas for one of its items."""
    found = []
    for schema in schemas:
        first = schema.get("prefixItems", ())
        found.append(first[index] if index < len(first) else schema.get("items", ANYTHING))
    return _without_repeats(found)


def _without_repeats(schemas: Iterable[Any]) -> tuple[Schema, ...]:
    return tuple({id(each): each for each in map(as_schema, schemas) if each}.values())


def matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # a pattern that only the validator understands
        return False


def canonical(value: Any) -> str:
    """The same text for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_with_integers(value), sort_keys=True)


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def types_of(value: Any) -> tuple[str, ...]:
    """The JSON Schema types of a value; a whole number has two."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("integer", "number") if value == value // 1 else ("number",)
    names = {type(None): "null", bool: "boolean", str: "string", list: "array"}
    return (names.get(type(value), "object"),)


def listed_types(schema: Mapping[str, Any]) -> list[str]:
    """The `type` of a schema as a list; empty when it has none."""
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def allowed_types(schemas: Iterable[Schema]) -> list[str]:
    """The types that all of these schemas accept."""
    left = list(TYPES)
    for schema in schemas:
        types = listed_types(schema) if "type" in schema else TYPES
        left = [each for each in left if each in types or (each == "integer" and "number" in types)]
    return left


def closed(schema: Mapping[str, Any]) -> Schema:
    """The schema with undeclared properties forbidden wherever it declares properties and says nothing about others."""
    return dict(_closed(schema, schema, is_part=True))


def _closed(schema: Any, root: Mapping[str, Any], *, is_part: bool) -> Any:
    if not isinstance(schema, Mapping):
        return schema

    def inner(word: str, each: Any) -> Any:
        # Inside of a condition or negation a stricter schema would let more values pass. A definition is closed where
        # it is referred to.
        if word in ("contains", "if", "not", "propertyNames"):
            return each
        return _closed(each, root, is_part=word in _PARTS)

    found = with_subschemas(schema, inner)
    decided = "additionalProperties" in schema or "unevaluatedProperties" in schema
    if is_part and not decided and _declares_properties(schema, root, 32):
        # `unevaluatedProperties` sees through references and `allOf`; `additionalProperties` is faster.
        combined = any(word in schema for word in ("$ref", "if", *_SAME_VALUE))
        found["unevaluatedProperties" if combined else "additionalProperties"] = False
    return found


def _declares_properties(schema: Any, root: Mapping[str, Any], depth: int) -> bool:
    if not isinstance(schema, Mapping) or depth == 0:
        return False
    inner = combined_with(schema, root)
    return "properties" in schema or any(_declares_properties(each, root, depth - 1) for each in inner)


def fill_defaults(data: Any, schema: Mapping[str, Any]) -> Any:
    """The data with the default of each required field that it lacks; the same object when it lacks none."""
    return _filled(data, [schema], schema)


def _filled(value: Any, parts: Iterable[Any], root: Mapping[str, Any]) -> Any:
    nodes = [node for part in parts for node in _certain(part, root, set())]
    if isinstance(value, dict):
        required = {name for node in nodes for name in node.get("required", ()) if name not in value}
        added = {
            name: deepcopy(part["default"])
            for node in nodes
            for name, part in node.get("properties", {}).items()
            if name in required and _has_default(part)
        }
        inner = {name: _filled(each, schemas_of_property(nodes, name), root) for name, each in value.items()}
        return {**inner, **added} if added or any(inner[name] is not value[name] for name in value) else value
    if isinstance(value, list):
        items = [_filled(each, schemas_of_item(nodes, index), root) for index, each in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _certain(part: Any, root: Mapping[str, Any], seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """The schemas that apply to a value in any case: this one, what it refers to, `allOf`, and the only choice beside
    null."""
    if not isinstance(part, Mapping) or id(part) in seen:
        return
    seen.add(id(part))
    yield part
    inner = [resolved(part["$ref"], root)] if "$ref" in part else []
    inner += part.get("allOf", ())
    for word in ("anyOf", "oneOf"):
        choices = [each for each in part.get(word, ()) if each != NULL]
        inner += choices if len(choices) == 1 else ()
    for each in inner:
        yield from _certain(each, root, seen)


def has_defaults(schema: Mapping[str, Any]) -> bool:
    """Whether `fill_defaults` may have something to do."""
    return bool(without_filled(schema) != schema)


def without_filled(schema: Mapping[str, Any]) -> Any:
    """The schema of data before `fill_defaults`: required fields with a default may be missing."""

    def change(part: Schema) -> Schema:
        named, required = part.get("properties"), part.get("required")
        if isinstance(named, Mapping) and isinstance(required, list):
            part["required"] = [name for name in required if not _has_default(named.get(name))]
        return part

    return rewritten(schema, change)


def _has_default(part: Any) -> bool:
    return isinstance(part, Mapping) and "default" in part
