"""Declaring types of events."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pydantic
import pytest

import duebox
from duebox.contracts import PII, event_types
from duebox.contracts.event_types import EventType
from duebox.exceptions import InvalidContract, InvalidPayload


def shape(name: str = "Shape", **hints: Any) -> type:
    return type(name, (), {"__annotations__": hints, "__module__": __name__, "__qualname__": name})


def test_a_declared_type_is_in_the_register_with_all_that_is_said_about_it(declare):
    @declare("member.invited", version=3, aggregate="member", owner="team people", public={"role"})
    class MemberInvited:
        """Somebody asked a person
        to join."""

        role: str

    kind = event_types.latest("member.invited")
    assert kind == event_types.type_of(MemberInvited)
    assert (kind.name, kind.version, kind.aggregate, kind.owner) == ("member.invited", 3, "member", "team people")
    assert kind.purpose == "Somebody asked a person to join."
    assert kind.origin == f"{__name__}.{MemberInvited.__qualname__}"
    assert [each.name for each in event_types.declared()[-1:]] == ["public.member.invited"]


def test_what_a_dataclass_writes_about_itself_is_no_purpose(declare):
    declare("member.invited")(shape(role=str))
    assert event_types.latest("member.invited").purpose == ""


def test_the_bare_decorator_says_what_to_write():
    with pytest.raises(InvalidContract) as raised:

        @duebox.event
        class OrderPaid:
            number: str

    here = f"{__name__}.test_the_bare_decorator_says_what_to_write.<locals>"
    assert str(raised.value) == (
        f"@duebox.event above {here}.OrderPaid does not name the event type; write @duebox.event('order.paid')."
    )


@pytest.mark.parametrize("options", [{}, {"version": 2}, {"name": ""}])
def test_empty_brackets_say_what_to_write(options):
    with pytest.raises(InvalidContract) as raised:
        duebox.event(**options)
    assert str(raised.value) == "@duebox.event() does not name the event type; write @duebox.event('order.paid')."


@pytest.mark.parametrize("name", [None, 7, ["order.paid"]])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InvalidContract, match="is not the name of an event type; write it as text"):
        duebox.event(name)


@pytest.mark.parametrize("version", [0, -1, 40_000, "1", 1.0, True])
def test_a_version_is_a_whole_number_from_one(declare, version):
    with pytest.raises(InvalidContract, match="must be a whole number"):
        declare("member.invited", version=version)(shape(role=str))


def test_two_classes_cannot_declare_the_same_version(declare):
    declare("member.invited")(shape("One", role=str))
    with pytest.raises(InvalidContract, match=r"is declared by .*One and by .*Two; keep one of them"):
        declare("member.invited")(shape("Two", role=str))


def test_a_module_that_is_imported_again_declares_again(declare):
    declare("member.invited")(shape("One", role=str))
    declare("member.invited")(shape("One", role=str, seats=int))
    assert set(event_types.latest("member.invited").schema["properties"]) == {"role", "seats"}


def test_a_type_without_fields_carries_nothing(declare):
    @declare("list.emptied")
    class Emptied:
        pass

    kind = event_types.type_of(Emptied)
    kind.check({})
    with pytest.raises(InvalidPayload, match="surprise"):
        kind.check({"surprise": 1})


def test_a_long_value_is_shown_in_short(declare):
    declare("member.invited")(shape(role=Annotated[str, {"maxLength": 5}]))
    with pytest.raises(InvalidPayload) as caught:
        event_types.latest("member.invited").check({"role": "x" * 10_000})
    assert str(caught.value).startswith("data.role: is a text of 10,000 characters and violates maxLength 5")
    assert len(str(caught.value)) < 200


def test_a_schema_must_describe_an_object():
    with pytest.raises(InvalidContract, match="must be of type 'object'"):
        event_types.declare(EventType(name="member.invited", version=1, schema={"type": "array"}))


def test_a_schema_that_cannot_be_used_is_refused_with_the_name_of_its_type():
    broken = {"type": "object", "properties": {"a": {"type": "strin"}}}
    with pytest.raises(InvalidContract, match=r"member\.invited v1: The schema cannot be used"):
        event_types.declare(EventType(name="member.invited", version=1, schema=broken))
    assert event_types.latest("member.invited") is None


def test_a_pydantic_model_is_an_event_type(declare):
    @declare("person.registered", public={"name"})
    class PersonRegistered(pydantic.BaseModel):
        """Somebody registered."""

        name: str
        email: str = pydantic.Field(json_schema_extra={"x-pii": True})

    kind = event_types.type_of(PersonRegistered)
    assert kind.purpose == "Somebody registered."
    assert kind.public_event.schema["properties"] == {"name": {"type": "string"}}


def test_personal_data_cannot_be_declared_public(declare):
    with pytest.raises(InvalidContract, match="'email', which is personal data"):
        declare("member.invited", public={"email"})(shape(email=Annotated[str, PII]))
    with pytest.raises(InvalidContract, match="'mail', which is not declared; there are: email"):
        declare("member.invited", public={"mail"})(shape(email=Annotated[str, PII]))
    assert event_types.latest("member.invited") is None


def test_a_refused_type_leaves_nothing_behind(declare):
    with pytest.raises(InvalidContract):
        declare("member.invited", public="role")(shape(role=str))
    assert not [each for each in event_types.declared() if "member.invited" in each.name]


def test_the_public_face_has_the_decorator():
    assert duebox.event is event_types.event


@pytest.mark.parametrize("base", [pydantic.BaseModel, msgspec.Struct])
def test_personal_data_of_models_cannot_be_declared_public(declare, base):
    model = type("Model", (base,), {"__annotations__": {"email": Annotated[str, PII]}, "__module__": __name__})
    with pytest.raises(InvalidContract, match="'email', which is personal data"):
        declare("member.invited", public={"email"})(model)
