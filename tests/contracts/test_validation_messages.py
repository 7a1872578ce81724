"""What is said about data that a schema refuses."""

from __future__ import annotations

import pytest

from duebox.contracts import validation
from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled, explain, personal_names

SCHEMA = {
    "type": "object",
    "properties": {
        "role": {"enum": ["admin", "guest"]},
        "seats": {"type": ["integer", "null"], "maximum": 9},
        "note": {"type": "string", "maxLength": 3},
        "email": {"type": "string", "format": "email", "maxLength": 20, "x-pii": True},
        "phone": {"$ref": "#/$defs/secret"},
        "people": {"type": "array", "items": {"properties": {"name": {"anyOf": [{"x-pii": True, "type": "string"}]}}}},
    },
    "required": ["role"],
    "$defs": {"secret": {"type": "string", "maxLength": 5, "x-pii": "hash"}},
}


@pytest.fixture(params=["jsonschema-rs", "jsonschema"], autouse=True)
def library(request, monkeypatch):
    if request.param == "jsonschema":
        monkeypatch.setattr(validation, "engine", None)


def refusal(**data):
    wrong = next(compiled(closed(SCHEMA)).errors(data))
    return f"{wrong.place}: {explain(wrong, SCHEMA)}"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"role": "owner"}, "data.role: is 'owner' and must be one of 'admin', 'guest'"),
        ({"role": "admin", "seats": "7"}, "data.seats: is '7' and must be of type integer or null"),
        ({"role": "admin", "seats": 12}, "data.seats: is 12 and violates maximum 9"),
        (
            {"role": "admin", "note": "x" * 5000},
            "data.note: is a text of 5,000 characters and violates maxLength 3",
        ),
        ({"role": "admin", "note": {"a": 1}}, "data.note: is an object and must be of type string"),
        ({"seats": 1}, "data: lacks 'role'"),
        ({"role": "admin", "rôle": 1, "b": 2}, "data: has 'rôle', 'b', undeclared"),
    ],
)
def test_place_value_and_rule_are_named(data, words):
    assert refusal(**data) == words


@pytest.mark.parametrize(
    "data",
    [
        {"email": "john@private.example.com"},
        {"email": ["john@private"]},
        {"phone": "john@private"},
        {"people": [{"name": {"first": "john@private"}}]},
    ],
)
def test_personal_data_is_not_repeated(data):
    assert "john" not in refusal(role="admin", **data)
    assert "personal data" in refusal(role="admin", **data)


def test_what_surrounds_the_fault_is_not_repeated_either():
    assert "john" not in refusal(email="john@private")


def test_every_name_that_may_be_personal_is_known():
    assert personal_names(SCHEMA) == {"email", "phone", "people", "name"}


def test_a_schema_that_holds_itself_is_read_once():
    tree = {"$defs": {"t": {"properties": {"next": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}
    assert personal_names(tree) == set()


def test_what_a_reference_or_a_choice_declares_is_not_called_undeclared():
    schema = {
        "$ref": "#/$defs/named",
        "oneOf": [
            {"properties": {"card": {}}, "required": ["card"]},
            {"properties": {"iban": {}}, "required": ["iban"]},
        ],
        "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    validator = compiled(closed(schema))
    wrong = next(validator.errors({"name": "x", "card": 1, "other": 2}))
    assert explain(wrong, schema) == "has 'other', undeclared"
