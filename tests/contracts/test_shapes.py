"""Classes as schemas, instances as data, and back."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox.contracts import PII
from duebox.contracts.shapes import data_of, instance_of, prepared, schema_of
from duebox.contracts.strict import closed
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract
from duebox.payload import encode


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Line:
    sku: Annotated[str, "What was bought", {"maxLength": 20}]
    quantity: int = 1


@dataclasses.dataclass(frozen=True)
class Order:
    id: UUID
    total: Decimal
    lines: list[Line]
    placed_at: datetime
    due_on: date | None = None
    size: Size = Size.SMALL
    level: Level = Level.LOW
    channel: Literal["web", "shop"] = "web"
    notes: dict[str, str] = dataclasses.field(default_factory=dict)
    place: tuple[float, float] | None = None
    tags: frozenset[str] = frozenset()
    email: Annotated[str, PII] | None = None


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


class Person(pydantic.BaseModel):
    name: str
    born: date
    email: str | None = None


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


def plain(instance: Any) -> Any:
    import json

    return json.loads(encode(data_of(instance), limit=100_000, depth=32))


def test_annotations_are_the_schema():
    schema = schema_of(Order)
    assert schema["required"] == ["id", "total", "lines", "placed_at"]
    assert schema["$defs"]["Line"] == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "What was bought", "maxLength": 20},
            "quantity": {"type": "integer", "default": 1},
        },
        "required": ["sku"],
    }
    found = schema["properties"]
    assert found["id"] == {"type": "string", "format": "uuid"}
    assert found["lines"] == {"type": "array", "items": {"$ref": "#/$defs/Line"}}
    assert found["due_on"] == {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}
    assert found["size"] == {"enum": ["s", "l"], "default": "s"}
    assert found["level"] == {"enum": [1, 2]}
    assert found["channel"] == {"enum": ["web", "shop"], "default": "web"}
    assert found["notes"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert found["place"]["anyOf"][0]["prefixItems"] == [{"type": "number"}, {"type": "number"}]
    assert found["tags"] == {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert found["email"] == {"anyOf": [{"type": "string", "x-pii": True}, {"type": "null"}]}


lines = st.builds(Line, st.text("abc", max_size=20), st.integers(-5, 5))
orders = st.builds(
    Order,
    id=st.uuids(),
    total=st.decimals(allow_nan=False, allow_infinity=False),
    lines=st.lists(lines, max_size=3),
    placed_at=st.datetimes(timezones=st.just(UTC)),
    due_on=st.none() | st.dates(),
    size=st.sampled_from(Size),
    level=st.sampled_from(Level),
    channel=st.sampled_from(["web", "shop"]),
    notes=st.dictionaries(st.text("xyz"), st.text("xyz"), max_size=2),
    place=st.none() | st.tuples(st.floats(-90, 90), st.floats(-90, 90)),
    tags=st.frozensets(st.text("pq"), max_size=3),
    email=st.none() | st.just("a@example.com"),
)


@given(orders)
def test_what_a_class_carries_fits_its_schema_and_comes_back_as_it_was(order):
    data = plain(order)
    assert compiled(closed(schema_of(Order))).first_error(data) is None
    assert instance_of(Order, data) == order


def test_a_class_may_hold_itself():
    tree = Node("root", [Node("leaf")])
    assert compiled(closed(schema_of(Node))).first_error(plain(tree)) is None
    assert not compiled(closed(schema_of(Node))).is_valid({"name": "root", "children": [{"name": "a", "extra": 1}]})
    assert instance_of(Node, plain(tree)) == tree


@pytest.mark.parametrize(
    ("instance", "refused"),
    [(Person(name="Ada", born=date(1815, 12, 10)), {"name": "Ada"}), (Point(x=1.5), {"x": "1.5"})],
)
def test_models_of_other_libraries_are_taken_as_they_are(instance, refused):
    shape = type(instance)
    assert prepared(shape) is shape
    validator = compiled(closed(schema_of(shape)))
    assert validator.first_error(plain(instance)) is None
    assert not validator.is_valid(refused)
    assert not validator.is_valid({**plain(instance), "undeclared": 1})
    assert instance_of(shape, plain(instance)) == instance


def test_a_plain_class_becomes_a_frozen_dataclass_with_named_fields():
    class Plain:
        role: str
        seats: int = 1

    made = prepared(Plain)(role="admin")
    assert data_of(made) == {"role": "admin", "seats": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.role = "other"
    with pytest.raises(TypeError):
        prepared(Plain)("admin")


@dataclasses.dataclass
class Strange:
    what: complex


def test_what_json_cannot_carry_is_refused_by_the_name_of_its_field():
    with pytest.raises(InvalidContract, match=r"Strange\.what is annotated with <class 'complex'>"):
        schema_of(Strange)


def test_a_class_that_describes_no_data_is_refused():
    with pytest.raises(InvalidContract, match="is not a class that describes data"):
        schema_of(int)


def test_a_class_below_a_dataclass_keeps_its_own_fields():
    class Longer(Line):
        colour: str

    made = prepared(Longer)(sku="a", colour="red")
    assert data_of(made) == {"sku": "a", "quantity": 1, "colour": "red"}
    assert set(schema_of(type(made))["properties"]) == {"sku", "quantity", "colour"}


@dataclasses.dataclass
class Sparse:
    names: list[Annotated[str, {"maxLength": 3}]]
    seats: int = None  # type: ignore[assignment]
    note: str | None = None


def test_what_is_not_given_is_not_sent_unless_it_may_be_null():
    assert data_of(Sparse(names=[])) == {"names": [], "note": None}
    assert data_of(Sparse(names=[], seats=2))["seats"] == 2
    assert compiled(closed(schema_of(Sparse))).first_error(data_of(Sparse(names=["abc"]))) is None


def test_words_of_json_schema_may_stand_inside_of_a_list():
    assert schema_of(Sparse)["properties"]["names"]["items"] == {"type": "string", "maxLength": 3}


@dataclasses.dataclass
class Inside:
    note: Annotated[str, {"maxLength": 3}] | None = None


def test_words_that_python_cannot_put_into_a_union_are_refused_with_the_repair():
    with pytest.raises(
        InvalidContract, match=r"put these around the union, as in Annotated\[str \| None"
    ):
        schema_of(Inside)
