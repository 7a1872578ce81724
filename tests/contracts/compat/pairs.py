"""Pairs of schemas as people change them, and what is right about each."""

from __future__ import annotations

from typing import Any, NamedTuple

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}


class Right(NamedTuple):
    backward: bool
    forward: bool
    additive: bool


FINE = Right(True, True, True)
QUIET = Right(True, True, False)
"""No event is refused, and yet it is more than an addition."""
OLD_EVENTS = Right(False, True, False)
OLD_READERS = Right(True, False, False)
BOTH = Right(False, False, False)


class Pair(NamedTuple):
    name: str
    old: Schema
    new: Schema
    right: Right


def event(*required: str, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}


def one(**words: Any) -> Schema:
    """An event with a single property, which is required."""
    return event("it", it=words)


def _both_ways(there: str, back: str, narrow: Schema, wide: Schema) -> list[Pair]:
    """A schema that takes less, and one that takes more: wider breaks old readers, narrower breaks old events."""
    return [Pair(there, narrow, wide, OLD_READERS), Pair(back, wide, narrow, OLD_EVENTS)]


ORDER = event("number", "total", number=TEXT, total=NUMBER, note=TEXT)
LINES = event("lines", lines={"type": "array", "items": event("sku", sku=TEXT)})
CARD = {**event("card", card=TEXT), "additionalProperties": False}
IBAN = {**event("iban", iban=TEXT), "additionalProperties": False}
ADDRESS = event("street", street=TEXT)


def _order(**more: Any) -> Schema:
    return {**ORDER, **more}


def _with(schema: Schema, *required: str, **properties: Any) -> Schema:
    kept = {name: each for name, each in {**schema["properties"], **properties}.items() if each is not None}
    return {**schema, "properties": kept, "required": [*schema.get("required", ()), *required]}


ADDITIONS = [
    Pair("an optional property", ORDER, _with(ORDER, coupon=TEXT), FINE),
    Pair("an optional property that may be null", ORDER, _with(ORDER, coupon={"type": ["string", "null"]}), FINE),
    Pair("an optional property in an object", event(to=ADDRESS), event(to=_with(ADDRESS, floor=WHOLE)), FINE),
    Pair(
        "an optional property in items",
        LINES,
        event("lines", lines={"type": "array", "items": event("sku", sku=TEXT, count=WHOLE)}),
        FINE,
    ),
    Pair("an optional object with required properties", ORDER, _with(ORDER, to=ADDRESS), FINE),
    Pair(
        "a known value of an open text",
        one(**TEXT, **{"x-known-values": ["a"]}),
        one(**TEXT, **{"x-known-values": ["a", "b"]}),
        FINE,
    ),
    Pair("a title and an id", ORDER, _order(title="Order", **{"$id": "https://example.org/order"}), FINE),
    Pair("a description", ORDER, _with(ORDER, note={**TEXT, "description": "by hand"}), FINE),
    Pair("a mark of being deprecated", ORDER, _with(ORDER, note={**TEXT, "deprecated": True}), FINE),
    Pair("another default", one(**TEXT, default="a"), one(**TEXT, default="b"), FINE),
    Pair("another unit", one(**NUMBER, description="EUR"), one(**NUMBER, description="cents"), FINE),
    Pair("another order of properties", event(a=TEXT, b=WHOLE), event(b=WHOLE, a=TEXT), FINE),
    Pair("another order of what is required", event("a", "b", a=TEXT, b=TEXT), event("b", "a", a=TEXT, b=TEXT), FINE),
    Pair(
        "a reference in the place of a schema",
        one(**TEXT),
        {**event("it", it={"$ref": "#/$defs/text"}), "$defs": {"text": TEXT}},
        FINE,
    ),
]

REQUIRED = [
    Pair("a required property is added", ORDER, _with(ORDER, "currency", currency=TEXT), OLD_EVENTS),
    Pair(
        "a required property with a default is added",
        ORDER,
        _with(ORDER, "currency", currency={**TEXT, "default": "EUR"}),
        OLD_EVENTS,
    ),
    Pair("an optional property is removed", ORDER, _with(ORDER, note=None), QUIET),
    Pair("a required property is removed", ORDER, event("number", number=TEXT, note=TEXT), OLD_READERS),
    Pair("a property is renamed", ORDER, event("number", "amount", number=TEXT, amount=NUMBER, note=TEXT), BOTH),
    Pair("a required property becomes optional", ORDER, {**ORDER, "required": ["number"]}, OLD_READERS),
    Pair(
        "an optional property becomes required", ORDER, {**ORDER, "required": ["number", "total", "note"]}, OLD_EVENTS
    ),
    Pair("a property moves into an object", event("street", street=TEXT), event("to", to=ADDRESS), BOTH),
    Pair(
        "a required property is added in items",
        LINES,
        event("lines", lines={"type": "array", "items": event("sku", "count", sku=TEXT, count=WHOLE)}),
        OLD_EVENTS,
    ),
]

OTHERS = [
    Pair(
        "an optional property is added to a closed schema",
        _order(additionalProperties=False),
        {**_with(ORDER, currency=TEXT), "additionalProperties": False},
        OLD_READERS,
    ),
    Pair("undeclared properties are refused", ORDER, _order(additionalProperties=False), QUIET),
    Pair("undeclared properties are refused no more", _order(additionalProperties=False), ORDER, QUIET),
    Pair(
        "undeclared properties may be sent",
        _order(additionalProperties=False),
        _order(additionalProperties=True),
        OLD_READERS,
    ),
    Pair(
        "undeclared properties may be sent no more",
        _order(additionalProperties=True),
        _order(additionalProperties=False),
        OLD_EVENTS,
    ),
    Pair("undeclared properties are spoken of", ORDER, _order(additionalProperties=True), QUIET),
    Pair(
        "a name is declared that open writers may have used",
        _order(additionalProperties=True),
        {**_with(ORDER, currency=TEXT), "additionalProperties": True},
        OLD_EVENTS,
    ),
]

TYPES = [
    Pair("the type is replaced", one(**TEXT), one(**WHOLE), BOTH),
    Pair("a list becomes a text", one(type="array", items=TEXT), one(**TEXT), BOTH),
    Pair("the type of items is replaced", one(type="array", items=TEXT), one(type="array", items=WHOLE), BOTH),
    *_both_ways("whole numbers become numbers", "numbers become whole numbers", one(**WHOLE), one(**NUMBER)),
    *_both_ways("null becomes possible", "null becomes impossible", one(**TEXT), one(type=["string", "null"])),
    *_both_ways(
        "null becomes possible in a union", "null leaves a union", one(**TEXT), one(anyOf=[TEXT, {"type": "null"}])
    ),
    *_both_ways("anything becomes possible", "anything becomes text", one(**TEXT), one()),
]

LIMITS = [
    *_both_ways("a value is added", "a value is removed", one(enum=["a", "b"]), one(enum=["a", "b", "c"])),
    *_both_ways("a list of values opens", "a text gets a list of values", one(**TEXT, enum=["a"]), one(**TEXT)),
    *_both_ways("maxLength grows", "maxLength shrinks", one(**TEXT, maxLength=5), one(**TEXT, maxLength=9)),
    *_both_ways("maxLength goes", "maxLength comes", one(**TEXT, maxLength=5), one(**TEXT)),
    *_both_ways("minLength shrinks", "minLength grows", one(**TEXT, minLength=2), one(**TEXT, minLength=1)),
    *_both_ways("maximum goes", "maximum comes", one(**WHOLE, maximum=5), one(**WHOLE)),
    *_both_ways("minimum falls", "minimum rises", one(**WHOLE, minimum=1), one(**WHOLE, minimum=0)),
    *_both_ways(
        "a limit is included", "a limit is excluded", one(**NUMBER, exclusiveMinimum=0), one(**NUMBER, minimum=0)
    ),
    *_both_ways("multipleOf goes", "multipleOf comes", one(**NUMBER, multipleOf=0.01), one(**NUMBER)),
    *_both_ways("a pattern goes", "a pattern comes", one(**TEXT, pattern="^a+$"), one(**TEXT)),
    *_both_ways(
        "a pattern widens", "a pattern narrows", one(**TEXT, pattern="^[a-m]+$"), one(**TEXT, pattern="^[a-z]+$")
    ),
    *_both_ways(
        "minItems goes", "minItems comes", one(type="array", items=TEXT, minItems=1), one(type="array", items=TEXT)
    ),
    *_both_ways("maxItems grows", "maxItems shrinks", one(type="array", maxItems=2), one(type="array", maxItems=3)),
    *_both_ways("repeats are allowed", "repeats are refused", one(type="array", uniqueItems=True), one(type="array")),
    *_both_ways("contains goes", "contains comes", one(type="array", contains={"const": 1}), one(type="array")),
    *_both_ways(
        "a tuple opens",
        "a tuple closes",
        one(type="array", prefixItems=[TEXT], items=False),
        one(type="array", prefixItems=[TEXT]),
    ),
    *_both_ways("minProperties goes", "minProperties comes", one(type="object", minProperties=1), one(type="object")),
    *_both_ways(
        "names open", "names close", one(type="object", propertyNames={"pattern": "^[a-z]+$"}), one(type="object")
    ),
    Pair("a format comes", one(**TEXT), one(**TEXT, format="date-time"), QUIET),
    Pair("a format goes", one(**TEXT, format="date-time"), one(**TEXT), QUIET),
    Pair("a format changes", one(**TEXT, format="date"), one(**TEXT, format="date-time"), QUIET),
]

VARIANTS = [
    *_both_ways("a variant is added", "a variant is removed", one(oneOf=[CARD]), one(oneOf=[CARD, IBAN])),
    *_both_ways("a choice is added", "a choice is removed", one(anyOf=[CARD, WHOLE]), one(anyOf=[CARD, WHOLE, IBAN])),
    *_both_ways(
        "a condition is removed",
        "a condition is added",
        {
            **event("kind", kind=TEXT, iban=TEXT),
            "if": {"properties": {"kind": {"const": "sepa"}}},
            "then": {"required": ["iban"]},
        },
        event("kind", kind=TEXT, iban=TEXT),
    ),
    *_both_ways(
        "a dependency is removed",
        "a dependency is added",
        {**event(a=TEXT, b=TEXT), "dependentRequired": {"a": ["b"]}},
        event(a=TEXT, b=TEXT),
    ),
    *_both_ways(
        "two are possible together",
        "two are impossible together",
        {**event(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}},
        event(a=TEXT, b=TEXT),
    ),
]

PAIRS = [*ADDITIONS, *REQUIRED, *OTHERS, *TYPES, *LIMITS, *VARIANTS]
