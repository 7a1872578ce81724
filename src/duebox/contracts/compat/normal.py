"""One spelling for schemas that say the same: references followed, `allOf` folded in, empty words left out."""

from __future__ import annotations

from typing import Any

from duebox.contracts.compat.document import Document
from duebox.contracts.compat.types import types_of
from duebox.contracts.compat.words import CONSTRAINTS, Schema, as_schema, canonical

_EMPTY: dict[str, Any] = {
    "allOf": [], "dependentRequired": {}, "dependentSchemas": {}, "items": {}, "minContains": 1, "minItems": 0,
    "minLength": 0, "minProperties": 0, "patternProperties": {}, "prefixItems": [], "properties": {},
    "propertyNames": {}, "required": [], "unevaluatedItems": {}, "uniqueItems": False,
}  # fmt: skip
"""Words that say nothing with this value. An explicit `additionalProperties: true` says something: see `strict`."""

_LOOKS_AT = {
    "additionalProperties": ("properties", "patternProperties"),
    "unevaluatedProperties": ("properties", "patternProperties"),
    "items": ("prefixItems",),
    "unevaluatedItems": ("items", "prefixItems"),
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
}
"""Words that look at others beside them: in another schema they would see something else."""
_OF_TYPE = {
    "string": {"maxLength", "minLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"},
    "number": {"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"},
    "object": {
        "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
        "propertyNames", "dependentRequired",
    },
}  # fmt: skip
_OF_TYPE["integer"] = _OF_TYPE["number"]


def normal(schema: Any, document: Document, within: frozenset[int] = frozenset()) -> Schema:
    """What a schema says, at its own level; the schemas of its parts are left as they are."""
    given = as_schema(schema)
    if id(given) in within:  # it is combined of itself, which says nothing more
        return {}
    found, within = dict(given), within | {id(given)}
    _fold_in(found, "$ref", [document.target(found)] if "$ref" in found else [], document, within)
    _fold_in(found, "allOf", found.get("allOf", []), document, within)
    _fold_types(found, document, within)
    if "const" in found and "enum" not in found:
        found["enum"] = [found.pop("const")]
    if "type" in found:
        found["type"] = _types(found["type"])
    if "type" in found and "enum" in found and all(set(types_of(each)) & set(found["type"]) for each in found["enum"]):
        del found["type"]
    return {word: value for word, value in found.items() if not _says_nothing(word, value)}


def _says_nothing(word: str, value: Any) -> bool:
    value = {} if value is True and word in ("items", "propertyNames", "unevaluatedItems") else value
    return word in _EMPTY and type(value) is type(_EMPTY[word]) and value == _EMPTY[word]


def _types(given: Any) -> list[str]:
    types = set([given] if isinstance(given, str) else given)
    if "number" in types:
        types.discard("integer")
    return sorted(types)


def _fold_in(found: Schema, word: str, parts: list[Any], document: Document, within: frozenset[int]) -> None:
    """Put what the parts say into the schema itself; what contradicts it stays a part."""
    if word not in found:
        return
    del found[word]
    for part in parts:
        inner = normal(part, document, within)
        merged = _merged(found, inner)
        if merged is None:
            found["allOf"] = [*found.get("allOf", ()), part]
        else:
            found.clear()
            found.update(merged)


def _merged(own: Schema, other: Schema) -> Schema | None:
    """Two schemas as one, where that is plain; None where words of both would get into each other's way."""
    merged = {**other, **own}
    for word in own.keys() & other.keys() & CONSTRAINTS:
        if word == "required":
            merged[word] = [*own[word], *other[word]]
        elif word == "properties":
            one, another = own[word], other[word]
            if any(canonical(one[name]) != canonical(another[name]) for name in one.keys() & another.keys()):
                return None
            merged[word] = {**one, **another}
        elif _spelled(word, own[word]) != _spelled(word, other[word]):
            return None
    for one, another in ((own, other), (other, own)):
        if any(
            word in one and companion in another for word, companions in _LOOKS_AT.items() for companion in companions
        ):
            return None
    return merged


def _spelled(word: str, value: Any) -> str:
    return canonical(_types(value) if word == "type" else value)


def _fold_types(found: Schema, document: Document, within: frozenset[int]) -> None:
    """`anyOf` over different types as one schema: each type has words of its own, which do not touch the others."""
    parts = [normal(part, document, within) for part in found.get("anyOf", ())]
    if not parts or any("type" not in part for part in parts) or "type" in found:
        return
    merged: Schema = {"type": []}
    for part in parts:
        types = part["type"]
        allowed = {"type", *(word for each in types for word in _OF_TYPE.get(each, ()))}
        constraints = part.keys() & CONSTRAINTS
        if set(types) & set(merged["type"]) or not constraints <= allowed or constraints & merged.keys() - {"type"}:
            return
        merged = {**part, **merged, "type": [*merged["type"], *types]}
    if {"integer", "number"} <= set(merged["type"]) or merged.keys() & found.keys() & CONSTRAINTS:
        return
    del found["anyOf"]
    found.update({word: value for word, value in merged.items() if word not in found})
