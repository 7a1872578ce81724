from __future__ import annotations

import builtins

import pytest

from duebox.contracts import validation
from duebox.contracts.validation import Wrong, compiled
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
    wrong = compiled(SCHEMA).first_error({"lines": [{"sku": "a"}, {"sku": 7}]})
    assert isinstance(wrong, Wrong)
    assert (wrong.place, wrong.value) == ("data.lines[1].sku", 7)


def test_what_fits_has_no_error(library):
    validator = compiled(SCHEMA)
    assert validator.is_valid({"lines": []})
    assert validator.first_error({"lines": []}) is None
    assert not validator.is_valid({})


def test_a_schema_that_is_none_is_refused(library):
    with pytest.raises(InvalidContract, match="cannot be used"):
        compiled({"type": "objekt"})


@pytest.mark.parametrize("target", ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "//host/x"])
def test_references_to_elsewhere_are_refused_and_never_fetched(library, target):
    with pytest.raises(InvalidContract, match="only local references"):
        compiled({"type": "object", "properties": {"a": {"allOf": [{"$ref": target}]}}})


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
