"""Defaults of required fields: filled in where stored data lacks them.

A field that is added to a schema as required, with a default, breaks nobody who reads through Duebox: events that were
stored before get the default before a handler sees them. JSON Schema itself only mentions defaults, so consumers
outside see the event as it was stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from duebox.contracts.strict import resolved

Schema = Mapping[str, Any]

_NULL = {"type": "null"}


def filled(data: Any, schema: Schema) -> Any:
    """The data with the default of each required field that it lacks; the same object when it lacks none."""
    return _filled(data, [schema], schema)


def _filled(value: Any, parts: list[Any], root: Schema) -> Any:
    nodes = [node for part in parts for node in _nodes(part, root, set())]
    if isinstance(value, dict):
        return _filled_object(value, nodes, root)
    if isinstance(value, list):
        items = [_filled(each, _of_item(nodes, index), root) for index, each in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _filled_object(value: dict[str, Any], nodes: list[Schema], root: Schema) -> dict[str, Any]:
    required = {name for node in nodes for name in node.get("required", ()) if name not in value}
    declared = [node["properties"] for node in nodes if "properties" in node]
    added = {
        name: deepcopy(named[name]["default"])
        for named in declared
        for name in named
        if name in required and _has_default(named[name])
    }
    inner = {name: _filled(each, _of_name(nodes, name), root) for name, each in value.items()}
    if added or any(inner[name] is not each for name, each in value.items()):
        return {**inner, **added}
    return value


def _nodes(part: Any, root: Schema, seen: set[int]) -> Iterator[Schema]:
    """The schemas that certainly apply to a value: this one, what it refers to, `allOf`, and the one of a choice that
    is not null."""
    if not isinstance(part, Mapping) or id(part) in seen:
        return
    seen.add(id(part))
    yield part
    inner = [resolved(part["$ref"], root)] if "$ref" in part else []
    inner += part.get("allOf", ())
    for word in ("anyOf", "oneOf"):
        choices = [each for each in part.get(word, ()) if each != _NULL]
        inner += choices if len(choices) == 1 else ()
    for each in inner:
        yield from _nodes(each, root, seen)


def _of_name(nodes: list[Schema], name: str) -> list[Any]:
    named = [node["properties"][name] for node in nodes if name in node.get("properties", ())]
    return named or [node["additionalProperties"] for node in nodes if "additionalProperties" in node]


def _of_item(nodes: list[Schema], index: int) -> list[Any]:
    first = [node["prefixItems"][index] for node in nodes if index < len(node.get("prefixItems", ()))]
    return first or [node["items"] for node in nodes if "items" in node]


def has_any(schema: Any) -> bool:
    """Whether there is anything to fill, wherever in the schema."""
    return bool(relaxed(schema) != schema)


def relaxed(schema: Any) -> Any:
    """The schema of everything that `filled` completes: required fields with a default may be missing."""
    if isinstance(schema, list):
        return [relaxed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {word: relaxed(value) for word, value in schema.items() if word not in ("default", "const", "enum")}
    found |= {word: schema[word] for word in ("default", "const", "enum") if word in schema}
    named, required = schema.get("properties"), schema.get("required")
    if isinstance(named, Mapping) and isinstance(required, list):
        found["required"] = [name for name in required if not _has_default(named.get(name))]
    return found


def _has_default(part: Any) -> bool:
    return isinstance(part, Mapping) and "default" in part
