"""Nothing leaves that is not on the list."""

from __future__ import annotations

import random
from typing import Any

import pytest

from duebox.contracts.public import projected, schema_of
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "customer": {"$ref": "#/$defs/person"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "gift_note": {"type": "string", "x-pii": True}},
                "required": ["sku", "gift_note"],
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {},
        "bag": {"type": "object"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]},
    },
    "required": ["id", "customer", "lines"],
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "email": {"type": "string", "x-pii": "drop"}},
            "required": ["id", "email"],
        }
    },
}
DATA = {
    "id": "o1",
    "customer": {"id": 7, "email": "a@example.com", "surprise": "x"},
    "lines": [{"sku": "s", "gift_note": "love"}],
    "labels": {"a": "b"},
    "anything": {"secret": 1},
    "maybe": {"id": 8, "email": "b@example.com"},
}


def seen(*allowed: str) -> Any:
    return projected(DATA, schema_of(ORDER, allowed))


def test_only_the_named_fields_are_kept():
    assert seen("id") == {"id": "o1"}
    assert seen("id", "labels") == {"id": "o1", "labels": {"a": "b"}}


def test_personal_data_inside_of_a_named_field_is_left_out():
    assert seen("customer", "lines", "maybe") == {
        "customer": {"id": 7},
        "lines": [{"sku": "s"}],
        "maybe": {"id": 8},
    }


def test_a_part_of_a_field_can_be_named():
    assert seen("customer.id") == {"customer": {"id": 7}}
    with pytest.raises(InvalidContract, match=r"'customer\.email', which is personal data"):
        seen("customer.email")
    with pytest.raises(InvalidContract, match=r"'customer\.phone', which is not declared"):
        seen("customer.phone")


@pytest.mark.parametrize("name", ["anything", "bag", "either"])
def test_a_field_that_could_hold_anything_cannot_be_public(name):
    with pytest.raises(InvalidContract, match="does not say exactly what it holds"):
        seen(name)


def test_what_is_kept_fits_the_public_schema():
    for allowed in (["id"], ["customer", "lines", "maybe"], ["customer.id", "labels"]):
        schema = schema_of(ORDER, allowed)
        assert compiled(schema).first_error(projected(DATA, schema)) is None


def test_the_public_schema_mentions_nothing_private():
    text = repr(schema_of(ORDER, ["id", "customer", "lines", "maybe"]))
    assert "email" not in text
    assert "gift_note" not in text
    assert "$defs" not in text


# A hundred thousand random events


class Maker:
    """Random schemas in which every leaf knows its own path, so that data that slipped through is recognised."""

    def __init__(self, luck: random.Random) -> None:
        self.luck = luck

    def schema(self, depth: int = 3) -> dict[str, Any]:
        names = self.luck.sample("abcdefgh", self.luck.randint(1, 5))
        return {"type": "object", "properties": {name: self.part(depth) for name in names}}

    def part(self, depth: int) -> dict[str, Any]:
        kinds = ["text", "number", "nullable"] + (["object", "list", "mapping", "choice"] if depth else [])
        match self.luck.choice(kinds):
            case "text":
                found: dict[str, Any] = {"type": "string"}
            case "number":
                found = {"type": ["integer", "null"]}
            case "nullable":
                found = {"anyOf": [{"type": "string"}, {"type": "null"}]}
            case "object":
                found = self.schema(depth - 1)
            case "list":
                found = {"type": "array", "items": self.part(depth - 1)}
            case "mapping":
                found = {"type": "object", "additionalProperties": self.part(depth - 1)}
            case _:
                found = {"anyOf": [self.schema(depth - 1), {"type": "null"}]}
        return {**found, "x-pii": True} if self.luck.random() < 0.2 else found

    def data(self, schema: dict[str, Any], path: str = "") -> Any:
        """What a careless writer might store: undeclared names among the others, everywhere."""
        if "properties" in schema:
            found = {name: self.data(part, f"{path}.{name}") for name, part in schema["properties"].items()}
            return {**found, f"x{self.luck.randint(0, 9)}": f"LEAK {path}"} if self.luck.random() < 0.5 else found
        if isinstance(schema.get("additionalProperties"), dict):
            return {key: self.data(schema["additionalProperties"], f"{path}.*") for key in ("k1", "k2")}
        if "items" in schema:
            return [self.data(schema["items"], f"{path}[]") for _ in range(self.luck.randint(0, 2))]
        if "anyOf" in schema:
            return self.data(schema["anyOf"][0], path) if self.luck.random() < 0.8 else None
        return path

    def allowed(self, schema: dict[str, Any]) -> list[str]:
        names = sorted(schema["properties"])
        return self.luck.sample(names, self.luck.randint(1, len(names)))


def paths_that_may_leave(schema: dict[str, Any], path: str) -> set[str]:
    """Written apart from the code it judges: walk the schema as declared, stop at personal data."""
    if schema.get("x-pii"):
        return set()
    if "anyOf" in schema:
        return paths_that_may_leave(schema["anyOf"][0], path)
    if "properties" in schema:
        inner = (paths_that_may_leave(part, f"{path}.{name}") for name, part in schema["properties"].items())
        return set().union(*inner)
    if isinstance(schema.get("additionalProperties"), dict):
        return paths_that_may_leave(schema["additionalProperties"], f"{path}.*")
    if "items" in schema:
        return paths_that_may_leave(schema["items"], f"{path}[]")
    return {path}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def test_of_a_hundred_thousand_random_events_nothing_leaves_that_is_not_allowed():
    maker, projections, kept = Maker(random.Random(20261116)), 0, 0
    while projections < 100_000:
        schema = maker.schema()
        allowed = maker.allowed(schema)
        try:
            public = schema_of(schema, allowed)
        except InvalidContract:  # the list names personal data
            continue
        may_leave = set().union(*(paths_that_may_leave(schema["properties"][name], f".{name}") for name in allowed))
        for _ in range(200):
            found = leaves(projected(maker.data(schema), public))
            assert may_leave.issuperset(found), (schema, allowed, found)
            projections, kept = projections + 1, kept + len(found)
    assert kept > 100_000
