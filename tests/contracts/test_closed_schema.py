"""The writer may send what is declared and nothing else."""

from __future__ import annotations

import pytest

from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


def takes(schema, value):
    return compiled(closed(schema)).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (NAME, {"name": "x"}, {"name": "x", "other": 1}),
        ({"type": "object", "properties": {"a": NAME}}, {"a": {"name": "x"}}, {"a": {"other": 1}}),
        ({"type": "array", "items": NAME}, [{"name": "x"}], [{"other": 1}]),
        ({"type": "array", "prefixItems": [NAME]}, [{"name": "x"}], [{"other": 1}]),
        ({"type": "object", "additionalProperties": NAME}, {"any": {"name": "x"}}, {"any": {"other": 1}}),
        ({"$ref": "#/$defs/n", "$defs": {"n": NAME}}, {"name": "x"}, {"other": 1}),
        (
            {"allOf": [NAME, {"properties": {"age": {"type": "integer"}}}]},
            {"name": "x", "age": 1},
            {"name": "x", "age": 1, "other": 1},
        ),
        (
            {"$ref": "#/$defs/n", "properties": {"age": {}}, "$defs": {"n": NAME}},
            {"name": "x", "age": 1},
            {"name": "x", "other": 1},
        ),
        (
            {"oneOf": [NAME, {"type": "object", "properties": {"iban": {}}, "required": ["iban"]}], "type": "object"},
            {"name": "x"},
            {"name": "x", "other": 1},
        ),
        (
            {
                "properties": {"kind": {}},
                "if": {"properties": {"kind": {"const": "a"}}},
                "then": {"properties": {"a": {}}},
            },
            {"kind": "a", "a": 1},
            {"kind": "b", "a": 1},
        ),
        ({"$ref": "#/$defs/a%20b", "$defs": {"a b": NAME}}, {"name": "x"}, {"other": 1}),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": NAME}}, {"name": "x"}, {"other": 1}),
        ({**NAME, "patternProperties": {"^x_": {}}}, {"name": "x", "x_1": 1}, {"name": "x", "other": 1}),
        (
            {"$ref": "#/$defs/n", "patternProperties": {"^x_": {}}, "$defs": {"n": NAME}},
            {"name": "x", "x_1": 1},
            {"name": "x", "other": 1},
        ),
    ],
)  # fmt: skip
def test_undeclared_properties_are_refused_wherever_properties_are_declared(schema, good, bad):
    assert compiled(schema).is_valid(good)
    assert takes(schema, good)
    assert not takes(schema, bad)


@pytest.mark.parametrize(
    "schema",
    [
        {**NAME, "additionalProperties": True},
        {**NAME, "additionalProperties": {"type": "integer"}},
        {**NAME, "patternProperties": {"^o": {"type": "integer"}}},
        {"type": "object", "patternProperties": {"^name": {}}},
        {"type": "object"},
        {},
        {"allOf": [{**NAME, "additionalProperties": True}]},
    ],
)
def test_a_schema_that_says_it_is_open_or_declares_nothing_stays_open(schema):
    assert takes(schema, {"name": "x", "other": 1})


def test_the_published_schema_is_not_changed():
    schema = {"type": "object", "properties": {"a": {**NAME}}}
    before = repr(schema)
    closed(schema)
    assert repr(schema) == before


def test_recursion_ends():
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"next": {"$ref": "#/$defs/t"}}}}}
    assert takes(tree, {"next": {"next": {}}})
    assert not takes(tree, {"next": {"next": {"other": 1}}})
    assert closed({"$ref": "#"})
