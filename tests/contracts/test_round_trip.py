"""Whatever a schema accepts reaches the handler as it was; whatever it refuses leaves no row."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duebox
from duebox.contracts import event_types
from duebox.contracts.event_types import EventType
from duebox.exceptions import InvalidPayload
from duebox.models import Event
from duebox.testing import drain
from tests.support import examples

pytestmark = pytest.mark.django_db

NAMES = st.sampled_from(["id", "role", "naïve", "a b", "x"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
LEAVES = [
    (st.just({"type": "string", "maxLength": 5}), TEXTS),
    (st.just({"type": "integer", "minimum": -3}), st.integers(-6, 2**70)),
    (st.just({"type": "number"}), st.floats(allow_nan=False, allow_infinity=False)),
    (st.just({"type": ["boolean", "null"]}), st.booleans() | st.none()),
    (st.just({"type": "string", "format": "date"}), st.dates().map(str) | st.just("2027-02-31") | TEXTS),
    (st.just({"type": "string", "format": "uuid"}), st.uuids().map(str) | TEXTS),
    (st.just({"enum": ["a", 1, None]}), st.sampled_from(["a", 1, None, "b"])),
]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def schema_with_values(draw: Any, depth: int = 2) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    """An object schema and values that mostly fit it: some lack a property, have another one, or a strange value."""
    properties, values = {}, {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        if depth and draw(st.booleans()):
            properties[name], values[name] = draw(schema_with_values(depth - 1))
            if draw(st.booleans()):
                properties[name] = {"type": "array", "items": properties[name], "maxItems": 2}
                values[name] = st.lists(values[name], max_size=3)
        else:
            schema, values[name] = draw(st.sampled_from(LEAVES))
            properties[name] = draw(schema)
        if draw(st.integers(0, 5)) == 0:
            values[name] = values[name] | ANY
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    found = {"type": "object", "properties": properties, "required": required}
    present = {name: value for name, value in values.items() if name in required}
    strategy = st.fixed_dictionaries(
        present, optional={name: value for name, value in values.items() if name not in required}
    )
    if draw(st.integers(0, 5)) == 0:
        strategy = st.builds(lambda a, b: {**b, **a}, strategy, st.dictionaries(NAMES, ANY, max_size=1))
    return found, strategy


FORMATS = jsonschema.FormatChecker(["date", "uuid"])


def strict(schema: Any) -> Any:
    """The same strictness, written down again for the judge."""
    if not isinstance(schema, dict):
        return schema
    found = {word: strict(value) for word, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        found["properties"] = {name: strict(part) for name, part in schema["properties"].items()}
        found["additionalProperties"] = False
    return found


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_the_schema_accepts_reaches_the_handler_and_what_it_refuses_leaves_no_row(on, data):
    schema, values = data.draw(schema_with_values())
    payload = data.draw(values)
    seen: list[Any] = []
    event_types.declare(EventType(name="thing.tried", version=1, schema=schema))
    on("thing.tried", name="it")(lambda event: seen.append(event.data))
    Event.objects.all().delete()
    try:
        if jsonschema.Draft202012Validator(strict(schema), format_checker=FORMATS).is_valid(payload):
            duebox.emit("thing.tried", payload)
            drain()
            assert seen == [json.loads(json.dumps(payload))]
        else:
            with pytest.raises(InvalidPayload, match=r"\(thing\.tried v1\)"):
                duebox.emit("thing.tried", payload)
            assert not Event.objects.exists()
    finally:
        event_types.forget("thing.tried")
        duebox.events.subscribers.remove("it")
