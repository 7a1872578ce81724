"""Required fields with a default: filled in for events that were stored without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import duebox
from duebox.contracts import event_types
from duebox.contracts.event_types import EventType
from duebox.contracts.json_schema import fill_defaults, has_defaults, without_filled
from duebox.contracts.upcasting import current
from duebox.exceptions import InvalidPayload
from duebox.models import Event
from duebox.testing import drain

TEXT = {"type": "string"}
EUROS = {**TEXT, "default": "EUR"}
BEFORE = {"type": "object", "properties": {"number": TEXT}, "required": ["number"]}
AFTER = {"type": "object", "properties": {"number": TEXT, "currency": EUROS}, "required": ["number", "currency"]}


@pytest.fixture
def paid() -> Any:
    """Declare the type anew, as a deployment with another schema does."""

    def declare(schema: dict[str, Any], **options: Any) -> None:
        event_types.declare(EventType(name="order.paid", version=1, schema=schema, **options))

    yield declare
    event_types.forget("order.paid")


@pytest.mark.django_db
def test_a_handler_sees_the_default_of_a_field_that_came_after_the_event(paid, on):
    seen: list[Any] = []
    on("order.paid", name="it")(lambda event: seen.append(event.data))
    paid(BEFORE)
    old = duebox.emit("order.paid", {"number": "A-1"})
    paid(AFTER)
    duebox.emit("order.paid", {"number": "A-2", "currency": "CHF"})
    drain()
    assert seen == [{"number": "A-1", "currency": "EUR"}, {"number": "A-2", "currency": "CHF"}]
    assert Event.objects.get(id=old.id).data == {"number": "A-1"}


@pytest.mark.django_db
def test_whoever_emits_still_has_to_say_it(paid):
    paid(AFTER)
    with pytest.raises(InvalidPayload, match="lacks 'currency'"):
        duebox.emit("order.paid", {"number": "A-1"})


@pytest.mark.django_db
def test_an_upcaster_gets_data_with_the_defaults_of_its_version(paid, on):
    seen: list[Any] = []
    on("order.paid", name="it")(lambda event: seen.append((event.version, event.data)))
    paid(BEFORE)
    duebox.emit("order.paid", {"number": "A-1"})
    paid(AFTER)
    second = {"type": "object", "properties": {"in": TEXT}, "required": ["in"]}
    event_types.declare(
        EventType(name="order.paid", version=2, schema=second, upcast=lambda data: {"in": data["currency"]})
    )
    drain()
    assert seen == [(2, {"in": "EUR"})]


@pytest.mark.django_db
def test_an_event_that_lacks_nothing_stays_the_same_object(paid):
    paid(AFTER)
    fact = duebox.emit("order.paid", {"number": "A-1", "currency": "CHF"})
    assert current(fact) is fact


@pytest.mark.django_db
def test_the_public_event_of_what_was_scheduled_before_has_it_too(paid):
    paid(BEFORE, public=frozenset({"number"}))
    row = duebox.emit("order.paid", {"number": "A-1"}, organization=1).row
    paid(AFTER, public=frozenset({"number", "currency"}))
    [_, twin] = duebox.contracts.enforce.with_public_events([row])
    assert json.loads(twin.data) == {"number": "A-1", "currency": "EUR"}


@pytest.mark.parametrize(
    ("schema", "data", "whole"),
    [
        (AFTER, {"number": "1"}, {"number": "1", "currency": "EUR"}),
        ({**AFTER, "required": ["number"]}, {"number": "1"}, {"number": "1"}),
        (BEFORE, {}, {}),
        (AFTER, {"currency": None}, {"currency": None}),
        ({"properties": {"all": {"items": AFTER}}}, {"all": [{"currency": "CHF"}, {}]},
         {"all": [{"currency": "CHF"}, {"currency": "EUR"}]}),
        ({"properties": {"all": {"prefixItems": [AFTER]}}}, {"all": [{}, {}]}, {"all": [{"currency": "EUR"}, {}]}),
        ({"additionalProperties": AFTER}, {"a": {}}, {"a": {"currency": "EUR"}}),
        ({"allOf": [AFTER]}, {}, {"currency": "EUR"}),
        ({"properties": {"one": {"anyOf": [{"$ref": "#/$defs/o"}, {"type": "null"}]}}, "$defs": {"o": AFTER}},
         {"one": {}}, {"one": {"currency": "EUR"}}),
        ({"properties": {"one": {"anyOf": [AFTER, {"type": "null"}]}}}, {"one": None}, {"one": None}),
        # Which of the two it is nobody can say.
        ({"properties": {"one": {"anyOf": [AFTER, BEFORE]}}}, {"one": {}}, {"one": {}}),
        ({"properties": {"again": {"$ref": "#"}, "a": {"default": 1}}, "required": ["a"], "allOf": [{"$ref": "#"}]},
         {"again": {"again": {}}}, {"a": 1, "again": {"a": 1, "again": {"a": 1}}}),
    ],
)  # fmt: skip
def test_required_fields_with_a_default_are_filled_in(schema, data, whole):
    before = json.dumps(data)
    assert fill_defaults(data, schema) == whole
    assert json.dumps(data) == before


def test_a_default_that_is_a_list_is_a_new_one_each_time():
    schema = {"properties": {"tags": {"default": []}}, "required": ["tags"]}
    fill_defaults({}, schema)["tags"].append("x")
    assert fill_defaults({}, schema) == {"tags": []}


def test_it_is_known_beforehand_whether_there_is_anything_to_fill_in():
    assert has_defaults(AFTER)
    assert has_defaults({"properties": {"all": {"items": AFTER}}})
    assert not has_defaults(BEFORE)
    assert not has_defaults({**AFTER, "required": ["number"]})
    assert without_filled(AFTER)["required"] == ["number"]
