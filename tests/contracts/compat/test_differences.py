"""What counts as the same although it is spelled otherwise, and what does not."""

from __future__ import annotations

import json

import pytest

from duebox.contracts.compat import compare
from tests.contracts.compat.pairs import NUMBER, TEXT, WHOLE, event, one

LINE = event("sku", sku=TEXT)
NODE = event("name", name=TEXT, inner={"type": "array", "items": {"$ref": "#"}})
NODE_BY_NAME = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": event("name", name=TEXT, inner={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
}

SAME = {
    "a type as a list": (one(type="string"), one(type=["string"])),
    "types in another order": (one(type=["string", "null"]), one(type=["null", "string"])),
    "whole numbers among numbers": (one(type=["number", "integer"]), one(type="number")),
    "values in another order": (one(enum=["a", "b"]), one(enum=["b", "a"])),
    "a constant as a list of one": (one(const="a"), one(enum=["a"])),
    "the type of values that are listed": (one(enum=["a", "b"]), one(type="string", enum=["a", "b"])),
    "1 and 1.0": (one(**NUMBER, minimum=1), one(**NUMBER, minimum=1.0)),
    "a limit of nothing": (one(**TEXT), one(**TEXT, minLength=0)),
    "items of any kind": (one(type="array"), one(type="array", items=True)),
    "true and an empty schema": (event(a={}), event(a=True)),
    "nothing required": (event(a=TEXT), {**event(a=TEXT), "required": []}),
    "a reference": (event(a=LINE), {**event(a={"$ref": "#/$defs/Line"}), "$defs": {"Line": LINE}}),
    "a reference among others": (
        event(a=LINE), {**event(a={"allOf": [{"$ref": "#/$defs/Line"}]}), "$defs": {"Line": LINE}}
    ),
    "a reference beside a description": (
        event(a=LINE), {**event(a={"$ref": "#/$defs/Line", "description": "new"}), "$defs": {"Line": LINE}}
    ),
    "another name of a definition": (
        {**event(a={"$ref": "#/$defs/Line"}), "$defs": {"Line": LINE}},
        {**event(a={"$ref": "#/definitions/line"}), "definitions": {"line": LINE}},
    ),
    "a base": (event("a", a=TEXT, b=WHOLE), {"allOf": [event("a", a=TEXT), event(b=WHOLE)]}),
    "a union of types": (one(type=["string", "null"]), one(anyOf=[TEXT, {"type": "null"}])),
    "a union of types with limits": (
        one(type=["string", "integer"], maxLength=5, minimum=1),
        one(anyOf=[{**WHOLE, "minimum": 1}, {**TEXT, "maxLength": 5}]),
    ),
    "variants in another order": (one(oneOf=[LINE, TEXT]), one(oneOf=[TEXT, LINE])),
    "a schema that holds itself": (NODE, NODE_BY_NAME),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_spelling_does_not_count(name):
    for old, new in (SAME[name], SAME[name][::-1]):
        verdict = compare(old, new)
        assert verdict.additive_only, verdict
        assert all(each.keyword == "description" for each in verdict.warnings)


OTHER = {
    "1 and true": (one(enum=[1]), one(enum=[True])),
    "an explicit null": (one(enum=["a", None]), one(enum=["a"])),
    "another encoding": (one(**TEXT), one(**TEXT, contentEncoding="base64")),
    "an addition under not": (one(**{"not": event(a=TEXT)}), one(**{"not": event(a=TEXT, b=TEXT)})),
    "a pattern of names": (one(type="object"), one(type="object", patternProperties={"^x-": TEXT})),
    "another item of a tuple": (one(prefixItems=[TEXT]), one(prefixItems=[WHOLE])),
    "a longer tuple": (one(prefixItems=[TEXT]), one(prefixItems=[TEXT, WHOLE])),
    "a changed part of a schema that holds itself": (
        NODE, {**NODE, "properties": {**NODE["properties"], "name": {**TEXT, "maxLength": 9}}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_a_constraint_that_is_another_one_counts(name):
    old, new = OTHER[name]
    assert compare(old, new).changes
    assert compare(new, old).changes


def test_a_removed_property_is_named_with_its_path():
    old = event(to=event(street=TEXT, floor=WHOLE), lines={"type": "array", "items": event(sku=TEXT)})
    new = event(to=event(street=TEXT), lines={"type": "array", "items": event()})
    assert [each.what for each in compare(old, new).changes] == ["`to.floor` was removed", "`lines[].sku` was removed"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"default": "a"}, {"default": "b"}, '`it`: `default` went from "a" to "b"'),
        ({}, {"default": None}, "`it`: `default` null was added"),
        ({"description": "EUR"}, {"description": "cents"}, '`it`: `description` went from "EUR" to "cents"'),
        ({"x-unit": "EUR"}, {"x-unit": "cents"}, '`it`: `x-unit` went from "EUR" to "cents"'),
        ({"x-known-values": ["a", "b"]}, {"x-known-values": ["a"]}, "`it`: `x-known-values` changed"),
    ],
)
def test_what_may_have_another_meaning_is_worth_a_warning(old, new, told):
    verdict = compare(one(**old), one(**new))
    assert verdict.additive_only
    assert [each.what for each in verdict.warnings] == [told]


@pytest.mark.parametrize(
    "more",
    [
        {"title": "It"}, {"$comment": "todo"}, {"examples": ["a"]}, {"deprecated": True}, {"description": "it"},
        {"x-known-values": ["a", "b"]}, {"x-pii": True},
    ],
)  # fmt: skip
def test_what_only_explains_is_worth_no_warning(more):
    assert compare(one(**TEXT), one(**TEXT, **more)).warnings == ()


def test_the_schemas_themselves_are_left_as_they_are():
    old = {
        **event(a={"$ref": "#/$defs/A", "maxLength": 1, "allOf": [{"minLength": 1}]}),
        "$defs": {"A": {"maxLength": 2}},
    }
    before = json.dumps(old)
    compare(old, event(a=TEXT))
    compare(event(a=TEXT), old)
    assert json.dumps(old) == before
