"""Classes that are made from schema files."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from duebox.contracts import class_schemas, event_types
from duebox.contracts.codegen import class_name_of, inlined, source
from duebox.contracts.event_types import EventType
from duebox.contracts.examples import example
from duebox.events.payload import encode
from duebox.exceptions import InvalidContract
from tests.contracts.random_schemas import DEFINITIONS, event_schemas
from tests.support import examples

_numbers = itertools.count()


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], Any]]:
    """Runs the source of a module and gives the type that it declares, which is forgotten at once."""
    made = []

    def import_source(text: str) -> Any:
        module = ModuleType(f"made_of_a_schema_{next(_numbers)}")
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        exec(compile(text, module.__name__, "exec"), module.__dict__)
        declared = event_types.latest("order.paid")
        event_types.forget("order.paid")
        return declared

    yield import_source
    for name in made:
        del sys.modules[name]


def kind(schema: Any, **words: Any) -> EventType:
    return EventType(name="order.paid", version=1, schema=schema, **words)


def of(required: Any = (), **properties: Any) -> Any:
    return {"type": "object", "properties": properties, "required": list(required)}


def fields_of(schema: Any) -> list[str]:
    """The lines of the class body."""
    return [line.strip() for line in source(kind(schema)).split("class OrderPaid:\n")[1].splitlines()]


def plainly(schema: Any) -> Any:
    """What a class can say of a schema, without references."""
    whole = inlined({word: value for word, value in schema.items() if word != "$defs"}, schema)
    return {"type": whole["type"], "properties": whole["properties"], "required": set(whole.get("required", ()))}


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=event_schemas())
def test_the_class_says_what_the_file_says(run, schema):
    schema = {**schema, "$defs": {**DEFINITIONS, "Node": DEFINITIONS["Line"]}}  # one that does not hold itself
    assert plainly(run(source(kind(schema))).schema) == plainly(schema)


def test_a_thing_that_holds_itself_becomes_a_class_that_does(run):
    schema = {**of(["root"], root={"$ref": "#/$defs/Node"}), "$defs": {"Node": DEFINITIONS["Node"]}}
    assert run(source(kind(schema))).schema == schema


EVERYDAY = {
    **of(
        ["number", "customer", "email", "total", "lines"],
        number={"type": "string"},
        customer={"type": "string", "format": "uuid"},
        email={"type": "string", "description": "For the receipt", "x-pii": True},
        total={"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$"},
        lines={"type": "array", "items": {"$ref": "#/$defs/Line"}},
        channel={"enum": ["web", "shop"], "default": "web"},
        note={"type": ["string", "null"]},
    ),
    "$defs": {"Line": DEFINITIONS["Line"]},
}


def test_everyday_fields_have_everyday_types():
    assert fields_of(EVERYDAY) == [
        "number: str",
        "customer: UUID",
        'email: Annotated[str, "For the receipt", PII]',
        "total: Decimal",
        "lines: list[Line]",
        'channel: Literal["web", "shop"] = "web"',
        "note: str | None = None",
    ]


def test_an_example_of_the_file_is_an_instance_of_the_class_and_back(run):
    data = example(EVERYDAY)
    instance = class_schemas.instance_of(run(source(kind(EVERYDAY))).shape, data)
    assert instance.lines[0].sku == data["lines"][0]["sku"]
    assert json.loads(encode(class_schemas.data_of(instance), limit=1000, depth=9)) == data


def test_the_words_that_no_type_has_stand_beside_it():
    assert fields_of(of(["sku"], sku={"type": "string", "minLength": 2, "maxLength": 20})) == [
        'sku: Annotated[str, {"minLength": 2, "maxLength": 20}]'
    ]
    assert fields_of(of(["thing"], thing={"oneOf": [{"type": "string"}, {"type": "integer"}]})) == [
        'thing: Annotated[Any, {"oneOf": [{"type": "string"}, {"type": "integer"}]}]'
    ]


def test_the_module_is_complete_and_imports_no_more_than_it_needs(run):
    text = source(kind(of(["day", "id"], day={"type": "string", "format": "date"}, id={"type": "integer"})))
    assert text.startswith("from __future__ import annotations\n\nfrom datetime import date\n\nimport duebox\n\n\n@")
    assert run(text).shape.__name__ == "OrderPaid"


def test_the_decorator_says_what_the_file_says_about_the_type(run):
    schema = of(["role"], role={"type": "string"})
    text = source(
        kind(schema, aggregate="order", owner="money", purpose='It was "paid" \\ in full.', public=frozenset({"role"}))
    )
    assert '@duebox.event("order.paid", aggregate="order", owner="money", public={"role"})' in text
    declared = run(text)
    assert (declared.aggregate, declared.owner, declared.public) == ("order", "money", {"role"})
    assert declared.purpose == 'It was "paid" \\ in full.'


def test_a_name_that_is_against_the_rules_stays_allowed():
    assert "check_name=False" in source(dataclasses.replace(kind(of()), check_name=False))


def test_words_of_the_whole_that_a_class_cannot_say_are_named():
    schema = {**of(["a"], a={"type": "string"}), "additionalProperties": False, "minProperties": 1}
    assert "# A class cannot express these keywords of the schema: additionalProperties, minProperties." in source(
        kind(schema)
    )


@pytest.mark.parametrize("name", ["first-name", "class", "2fa", "__secret"])
def test_a_field_that_no_class_can_have_is_refused_by_name(name):
    with pytest.raises(InvalidContract, match=re.escape(f"order.paid v1 has a field {name!r}")):
        source(kind(of(**{name: {"type": "string"}})))


def test_a_definition_that_only_a_file_can_express_is_refused_if_it_holds_itself():
    node = {"type": "object", "properties": {"first-name": {"$ref": "#/$defs/Node"}}}
    with pytest.raises(InvalidContract, match="contains itself in a way that a class cannot express"):
        source(kind({**of(["root"], root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}))


def test_the_class_is_called_like_the_event():
    assert class_name_of("organization.billing_updated") == "OrganizationBillingUpdated"
