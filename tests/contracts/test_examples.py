"""Examples that are made from a schema."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from duebox.contracts.examples import example
from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled
from tests.contracts.random_schemas import event_schemas
from tests.support import examples


def of(required: Any = (), **properties: Any) -> Any:
    return {"type": "object", "properties": properties, "required": list(required)}


def made(**properties: Any) -> Any:
    return example(of(**properties))


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(event_schemas())
def test_whatever_the_schema_its_example_may_be_emitted(schema):
    found = example(schema)
    assert found is not None
    assert compiled(closed(schema)).is_valid(found)


def test_an_example_shows_every_field_required_or_not():
    schema = of(["number"], number={"type": "string"}, note={"type": "string"}, gift={"type": "boolean"})
    assert example(schema).keys() == {"number", "note", "gift"}


def test_values_look_like_what_the_field_is_called():
    text = {"type": "string"}
    found = made(email=text, first_name=text, currency=text, starts_at=text, zone=text, total=text, color=text)
    assert found == {
        "email": "ada@example.com",
        "first_name": "Ada",
        "currency": "EUR",
        "starts_at": "2026-03-29T09:00:00Z",
        "zone": "Europe/Paris",
        "total": "99.50",
        "color": "#3366cc",
    }
    assert made(weather=text) == {"weather": "some weather"}


def test_values_look_like_their_format_whatever_the_field_is_called():
    found = made(
        name={"type": "string", "format": "email"},
        note={"type": "string", "format": "date"},
        email={"type": "string", "format": "uuid"},
    )
    assert (found["name"], found["note"]) == ("ada@example.com", "2026-03-29")
    assert found["email"].count("-") == 4


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "examples": ["B-7"]}, "B-7"),
        ({"type": "string", "default": "guest"}, "guest"),
        ({"enum": ["admin", "guest"]}, "admin"),
        ({"const": 7}, 7),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "EUR"),
        ({"type": "string", "maxLength": 3}, "som"),
        ({"type": "integer", "minimum": 10, "multipleOf": 7}, 14),
        ({"type": ["null", "boolean"]}, True),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "minItems": 2}, ["a", "b"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"key": 1}),
        ({"type": "object", "additionalProperties": {"const": 1}, "minProperties": 2}, {"key": 1, "en": 1}),
        ({"type": "object", "patternProperties": {"^[A-Z]{2}$": {"const": 1}}, "minProperties": 1}, {"AA": 1}),
        ({"type": "array", "contains": {"const": "x"}}, ["x"]),
    ],
)
def test_what_a_schema_says_is_kept_to(schema, value):
    assert made(thing=schema) == {"thing": value}


def test_an_example_of_the_author_that_is_wrong_is_passed_over():
    assert made(count={"type": "integer", "examples": ["three"], "default": 3}) == {"count": 3}


def test_a_text_that_must_be_long_is_made_of_words():
    (text,) = made(note={"type": "string", "minLength": 40}).values()
    assert len(text) == 40
    assert text.startswith("A short text A short text")


def test_a_thing_that_holds_itself_is_shown_once():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
    schema = {**of(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    assert example(schema) == {"root": {"name": "Ada Lovelace", "next": {"name": "Ada Lovelace"}}}


def test_fields_that_exclude_each_other_are_not_shown_together():
    schema = {**of(card={"type": "string"}, iban={"type": "string"}), "not": {"required": ["card", "iban"]}}
    assert example(schema) in ({"card": "some card"}, {"iban": "FR7630006000011234567890189"})


def test_fields_that_depend_on_each_other_agree():
    schema = {
        **of(["kind"], kind={"enum": ["card", "iban"]}, number={"type": "string"}),
        "if": {"properties": {"kind": {"const": "card"}}},
        "then": {"properties": {"number": {"pattern": "^[0-9]{4}$"}}, "required": ["number"]},
    }
    found = example(schema)
    assert found["kind"] == "iban" or found["number"].isdigit()


def test_a_schema_that_takes_nothing_has_no_example():
    assert example(of(["thing"], thing=False)) is None


def test_the_same_schema_gives_the_same_example_in_another_process():
    schema = of(a={"type": "string"}, b={"type": "number"}, c={"type": "array", "items": {"type": "string"}})
    code = f"import json; from duebox.contracts.examples import example; print(json.dumps(example({schema!r})))"
    setup = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'; django.setup(); "
    done = subprocess.run([sys.executable, "-c", setup + code], capture_output=True, text=True, check=True)
    assert list(json.loads(done.stdout).items()) == list(example(schema).items())
