from __future__ import annotations

import builtins
import re

import pytest

from duebox.contracts import validation
from duebox.contracts.validation import Violation, compiled
from duebox.exceptions import InvalidContract

SCHEMA = {
    "type": "object",
    "properties": {"lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
    "required": ["lines"],
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
}


@pytest.fixture(params=["jsonschema-rs", "jsonschema"])
def library(request, monkeypatch):
    if request.param == "jsonschema":
        monkeypatch.setattr(validation, "engine", None)
    return request.param


def test_the_first_error_names_the_place_and_the_value(library):
    wrong = next(compiled(SCHEMA).errors({"lines": [{"sku": "a"}, {"sku": 7}]}))
    assert isinstance(wrong, Violation)
    assert (wrong.place, wrong.value) == ("data.lines[1].sku", 7)


def test_what_fits_has_no_error(library):
    validator = compiled(SCHEMA)
    assert validator.is_valid({"lines": []})
    assert [*validator.errors({"lines": []})] == []
    assert not validator.is_valid({})


def test_a_schema_that_is_none_is_refused(library):
    with pytest.raises(InvalidContract, match="cannot be used"):
        compiled({"type": "objekt"})


@pytest.mark.parametrize("target", ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "//host/x"])
def test_references_to_elsewhere_are_refused_and_never_fetched(library, target):
    with pytest.raises(InvalidContract, match="only local references"):
        compiled({"type": "object", "properties": {"a": {"allOf": [{"$ref": target}]}}})


@pytest.mark.parametrize("target", ["#person", "person", ""])
def test_references_are_paths(library, target):
    with pytest.raises(InvalidContract, match=r"only local references like '#/\$defs/address'"):
        compiled({"type": "object", "$ref": target, "$defs": {"p": {"$anchor": "person"}}})


@pytest.mark.parametrize(
    ("word", "schema"),
    [
        ("$dynamicRef", {"properties": {"a": {"$dynamicRef": "#/$defs/x"}}, "$defs": {"x": {}}}),
        ("$recursiveRef", {"properties": {"a": {"$recursiveRef": "#"}}}),
        ("$id", {"properties": {"a": {"$id": "https://example.com/b", "$ref": "#/$defs/x", "$defs": {"x": {}}}}}),
    ],
)
def test_words_that_give_references_another_meaning_are_refused(library, word, schema):
    with pytest.raises(InvalidContract, match=re.escape(f"The schema uses {word!r}")):
        compiled(schema)
    compiled({"$id": "https://example.com/a", "properties": {word: {"type": "string"}}})


@pytest.mark.parametrize("word", ["const", "enum", "default", "examples"])
def test_a_value_that_looks_like_a_reference_is_a_value(library, word):
    value = {"$ref": "https://example.com/x"}
    compiled({"properties": {"a": {word: [value] if word in ("enum", "examples") else value}}})
    with pytest.raises(InvalidContract, match="only local references"):
        compiled({"properties": {word: value}})


def test_a_reference_into_a_value_fetches_nothing(library):
    value = {"$ref": "http://127.0.0.1:9/x"}
    schema = {"properties": {"a": {"default": value}, "b": {"$ref": "#/properties/a/default"}}}
    with pytest.raises(InvalidContract, match="only local references"):
        compiled(schema)


def test_modern_words_are_understood(library):
    validator = compiled(
        {
            "type": "object",
            "properties": {"pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}},
            "dependentRequired": {"a": ["b"]},
            "unevaluatedProperties": False,
        }
    )
    assert validator.is_valid({"pair": ["x", 1]})
    assert not validator.is_valid({"pair": ["x", 1, 2]})
    assert not validator.is_valid({"a": 1})


def test_without_any_validator_the_repair_is_named(monkeypatch):
    monkeypatch.setattr(validation, "engine", None)
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "jsonschema":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidContract, match="pip install jsonschema-rs"):
        compiled(SCHEMA)
