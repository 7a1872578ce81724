"""Schemas as people write them, of any kind; each of them takes something."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["email", "role", "total", "placed_at", "user_id", "rôle", "lines", "note"])
DEFINITIONS = {
    "Line": {
        "type": "object",
        "properties": {"sku": {"type": "string", "minLength": 2}, "count": {"type": "integer", "default": 1}},
        "required": ["sku"],
    },
    "Node": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inner": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["name"],
    },
    "short-text": {"type": "string", "maxLength": 3},
}
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 30, "maxLength": 40},
        {"type": "string", "maxLength": 1, "description": "A \"quoted\" | \\ 'text'"},
        {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3,5}$"},
        {"type": "string", "format": "uuid", "x-pii": True},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "email", "maxLength": 60},
        {"type": ["string", "null"], "format": "uri"},
        {"type": "array", "items": {"type": "string", "format": "uuid"}, "uniqueItems": True, "minItems": 2},
        {"type": ["string", "null"], "default": None},
        {"type": "integer", "minimum": 7, "exclusiveMaximum": 9},
        {"type": "integer", "multipleOf": 12, "minimum": 100},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 0.25},
        {"type": "boolean", "default": False},
        {"enum": ["a", 1, None]},
        {"type": "string", "enum": ["web", "shop"]},
        {"const": {"x": [1, 2]}},
        {"anyOf": [{"type": "string", "format": "date", "description": "the day"}, {"type": "null"}]},
        {"$ref": "#/$defs/Line"},
        {"$ref": "#/$defs/Node"},
        {"$ref": "#/$defs/short-text"},
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
        {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]},
        {},
    ]
)


def _lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least}, inner, st.sampled_from([0, 1, 2])
    )


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    @st.composite
    def build(draw: Any) -> dict[str, Any]:
        properties = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=4))
        required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
        found = {"type": "object", "properties": properties, "required": required}
        if draw(st.booleans()):
            return found
        return {**found, "dependentRequired": {next(iter(properties)): sorted(properties)[:1]}}

    return build()


PARTS = st.recursive(LEAVES, lambda inner: _lists(inner) | _objects(inner), max_leaves=6)


@st.composite
def event_schemas(draw: Any) -> dict[str, Any]:
    return {**draw(_objects(PARTS)), "$defs": DEFINITIONS}
