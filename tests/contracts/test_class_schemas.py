"""Classes as schemas, instances as data, and back."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox.contracts import PII
from duebox.contracts.class_schemas import data_of, instance_of, prepared, schema_of
from duebox.contracts.json_schema import closed
from duebox.contracts.validation import compiled
from duebox.events.payload import encode
from duebox.exceptions import InvalidContract


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
    assert not [*compiled(closed(schema_of(Order))).errors(data)]
    assert instance_of(Order, data) == order


def test_a_class_may_hold_itself():
    tree = Node("root", [Node("leaf")])
    assert not [*compiled(closed(schema_of(Node))).errors(plain(tree))]
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
    assert not [*validator.errors(plain(instance))]
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
    assert not [*compiled(closed(schema_of(Sparse))).errors(data_of(Sparse(names=["abc"])))]


def test_words_of_json_schema_may_stand_inside_of_a_list():
    assert schema_of(Sparse)["properties"]["names"]["items"] == {"type": "string", "maxLength": 3}


@dataclasses.dataclass
class Inside:
    note: Annotated[str, {"maxLength": 3}] | None = None


def test_words_inside_of_a_union_are_understood_or_where_python_cannot_do_that_refused_with_the_repair():
    if sys.version_info >= (3, 13):
        assert schema_of(Inside)["properties"]["note"]["anyOf"][0] == {"type": "string", "maxLength": 3}
        return
    with pytest.raises(InvalidContract, match=r"put these around the union, as in Annotated\[str \| None"):
        schema_of(Inside)


# Names


def addresses() -> tuple[type, type]:
    def made(hint: Any) -> type:
        return dataclasses.make_dataclass("Address", [("city", str), ("mail", hint)])

    return made(str), made(Annotated[str, PII])


def test_two_classes_of_one_name_keep_their_own_schemas():
    office, home = addresses()
    schema = schema_of(
        dataclasses.make_dataclass("Both", [("office", office), ("home", home), ("other", list[office])])
    )
    assert schema["properties"]["office"] == {"$ref": "#/$defs/Address"}
    assert schema["properties"]["home"] == {"$ref": "#/$defs/Address2"}
    assert schema["properties"]["other"]["items"] == {"$ref": "#/$defs/Address"}
    assert schema["$defs"]["Address"]["properties"]["mail"] == {"type": "string"}
    assert schema["$defs"]["Address2"]["properties"]["mail"] == {"type": "string", "x-pii": True}


def test_a_class_that_is_not_known_by_its_name_yet_may_hold_itself():
    class Branch:
        name: str
        inner: list[Branch] = dataclasses.field(default_factory=list)

    shape = prepared(Branch)
    assert schema_of(shape)["$defs"]["Branch"]["required"] == ["name"]
    tree = shape(name="a", inner=[shape(name="b")])
    assert instance_of(shape, plain(tree)) == tree


def test_a_name_that_is_not_found_is_refused_with_the_repair():
    class Hidden:
        pass

    class Holder:
        hidden: Hidden

    with pytest.raises(InvalidContract, match=r"Holder.*name 'Hidden' is not defined.*at the top of a module"):
        schema_of(prepared(Holder))


def test_a_class_below_a_dataclass_that_is_not_frozen_is_refused_with_the_repair():
    class Below(Sparse):
        more: int

    with pytest.raises(
        InvalidContract, match=r"Below inherits from Sparse.*write @dataclass\(frozen=True\) above Sparse"
    ):
        prepared(Below)


@dataclasses.dataclass(frozen=True)
class Sum:
    parts: list[int]
    total: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.parts))


def test_a_field_that_the_class_sets_itself_comes_back_as_it_was():
    assert instance_of(Sum, plain(Sum([1, 2]))) == Sum([1, 2])
    assert instance_of(Sum, {"parts": [1, 2], "total": 7}).total == 7


# Models of other libraries


class Contact(pydantic.BaseModel):
    email: Annotated[str, PII, "Where to write", {"maxLength": 40}]


class ContactStruct(msgspec.Struct):
    email: Annotated[str, PII, "Where to write", {"maxLength": 40}]


@dataclasses.dataclass
class Phone:
    number: Annotated[str, PII]


T = TypeVar("T")


class Box(pydantic.BaseModel, Generic[T]):
    inside: T


class Model(pydantic.BaseModel):
    role: str
    contact: Contact
    phones: list[Phone]
    note: Annotated[str | None, PII] = None
    second: Annotated[str, PII] | None = None
    others: list[Annotated[str, PII]] = []
    by_name: dict[str, Annotated[str, PII]] = {}
    by_mail: dict[Annotated[str, PII], int] = {}
    pair: tuple[int, Annotated[str, PII]] | None = None
    box: Box[Annotated[str, PII]] | None = None
    inner: list[Model] = []
    unsent: Annotated[str, PII] = pydantic.Field(default="", exclude=True)

    @pydantic.computed_field
    def upper(self) -> Annotated[str, PII]:
        return self.role.upper()


class Struct(msgspec.Struct):
    role: str
    contact: ContactStruct
    phones: list[Phone]
    note: Annotated[str | None, PII] = None
    second: Annotated[str, PII] | None = None
    others: list[Annotated[str, PII]] = []
    by_name: dict[str, Annotated[str, PII]] = {}
    by_mail: dict[Annotated[str, PII], int] = {}
    pair: tuple[int, Annotated[str, PII]] | None = None
    inner: list[Struct] = []


@pytest.mark.parametrize("shape", [Model, Struct])
def test_marks_reach_the_schemas_of_other_libraries(shape):
    schema = schema_of(shape)
    found, inside = schema["properties"], schema["$defs"]
    contact = inside["Contact" if shape is Model else "ContactStruct"]["properties"]["email"]
    assert contact == {"type": "string", "x-pii": True, "description": "Where to write", "maxLength": 40}
    assert inside["Phone"]["properties"]["number"]["x-pii"]
    assert inside[shape.__name__]["properties"]["note"]["x-pii"], "it holds itself"
    assert found["note"]["x-pii"]
    assert found["second"]["anyOf"][0] == {"type": "string", "x-pii": True}
    assert found["others"]["items"]["x-pii"]
    assert found["by_name"]["additionalProperties"]["x-pii"]
    assert found["by_mail"]["propertyNames"]["x-pii"]
    assert found["pair"]["anyOf"][0]["prefixItems"][1]["x-pii"]
    assert "x-pii" not in found["role"]
    if shape is Model:
        assert found["upper"]["x-pii"]
        box = next(each for name, each in inside.items() if name.startswith("Box"))
        assert box["properties"]["inside"]["x-pii"]
    compiled(closed(schema))


@pytest.mark.parametrize("base", [pydantic.BaseModel, msgspec.Struct])
def test_a_mark_that_has_no_place_in_the_schema_is_refused(base):
    hint = int | Annotated[str, PII] | list[int]
    shape = type("Odd", (base,), {"__annotations__": {"either": hint}, "__module__": __name__})
    with pytest.raises(InvalidContract, match=r"Odd\.either .*put them around the whole annotation"):
        schema_of(shape)


class Left(msgspec.Struct):
    right: Right | None = None


class Right(msgspec.Struct):
    left: Left


class Tree(pydantic.BaseModel):
    inner: list[Tree] = []


@pytest.mark.parametrize("instance", [Right(left=Left()), Tree(inner=[Tree()])])
def test_models_may_hold_themselves(instance):
    schema = schema_of(type(instance))
    assert schema["type"] == "object"
    assert not [*compiled(closed(schema)).errors(plain(instance))]
    assert instance_of(type(instance), plain(instance)) == instance


def test_definitions_that_nobody_refers_to_are_left_out():
    assert "$defs" not in schema_of(Person)
    assert "$defs" not in schema_of(Point)


class Aliased(pydantic.BaseModel):
    role_name: str = pydantic.Field(alias="roleName")


class Renamed(msgspec.Struct, rename="camel"):
    role_name: str


@pytest.mark.parametrize("instance", [Aliased(roleName="admin"), Renamed(role_name="admin")])
def test_data_travels_under_the_names_of_the_schema(instance):
    assert plain(instance) == {"roleName": "admin"}
    assert not [*compiled(closed(schema_of(type(instance)))).errors(plain(instance))]
    assert instance_of(type(instance), plain(instance)) == instance


class OneWay(pydantic.BaseModel):
    role_name: str = pydantic.Field(serialization_alias="roleName")


class BothWays(pydantic.BaseModel):
    role: str = pydantic.Field(
        serialization_alias="roleName", validation_alias=pydantic.AliasChoices("role", "roleName")
    )


def test_a_name_that_is_written_and_never_read_is_refused():
    with pytest.raises(InvalidContract, match=r"OneWay\.role_name is written as 'roleName' and read as 'role_name'"):
        schema_of(OneWay)
    assert instance_of(BothWays, data_of(BothWays(role="x"))) == BothWays(role="x")


class NotReady(pydantic.BaseModel):
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821


class NotReadyStruct(msgspec.Struct):
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("shape", [NotReady, NotReadyStruct])
def test_a_model_that_has_no_schema_is_refused_with_the_reason(shape):
    with pytest.raises(InvalidContract, match=rf"{shape.__name__} has no JSON Schema .*Nowhere"):
        schema_of(shape)
