"""What an event is held to when it is emitted."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any

import pytest
from django.db import IntegrityError, transaction

import duebox
from duebox import clock
from duebox.contracts import PII, cloudevents, event_types
from duebox.exceptions import IdempotencyConflict, InvalidEvent, InvalidPayload, UndeclaredEvent
from duebox.models import Delivery, Event
from duebox.testing import captured, drain, travel

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _strict(settings: Any) -> None:
    settings.DUEBOX = {}


@pytest.fixture
def invited(declare: Any) -> Any:
    class MemberInvited:
        """Somebody asked a person to join."""

        email: Annotated[str, PII]
        role: str
        seats: int = 1

    return declare("member.invited", public={"role", "seats"})(MemberInvited)


def shape(**hints: Any) -> type:
    return type(
        "Shape", (), {"__annotations__": hints, "__module__": __name__, "__qualname__": f"Shape{sorted(hints)}"}
    )


def test_an_instance_of_a_declared_class_is_an_event(invited):
    fact = duebox.emit(invited(email="a@b.example", role="admin"), organization=7)
    assert (fact.type, fact.version) == ("member.invited", 1)
    assert fact.data == {"email": "a@b.example", "role": "admin", "seats": 1}
    assert Event.objects.get(pk=fact.id).data == fact.data


def test_emit_many_takes_instances_beside_new_events(declare):
    class MemberLeft:
        role: str

    left = declare("member.left")(MemberLeft)
    facts = duebox.emit_many([left(role="admin"), duebox.NewEvent(type=left(role="guest"), about=("member", 7))])
    assert [(fact.type, fact.data["role"]) for fact in facts] == [("member.left", "admin"), ("member.left", "guest")]
    assert [fact.about for fact in facts] == [None, ("member", "7")]


@pytest.mark.parametrize("event", ["member.left", {"type": "member.left"}, Event])
def test_emit_many_refuses_what_is_neither_an_instance_nor_a_new_event(event):
    with pytest.raises(InvalidEvent, match=r"NewEvent\(type=\.\.\.\) or an instance of a class under @duebox\.event"):
        duebox.emit_many([event])


def test_the_plain_form_is_held_to_the_same_schema(invited):
    assert duebox.emit("member.invited", {"email": "a@b.example", "role": "admin"}, organization=7).version == 1
    with pytest.raises(InvalidPayload, match=r"data\.role: is 7 and must be of type string \(member\.invited v1\)"):
        duebox.emit("member.invited", {"email": "a@b.example", "role": 7}, organization=7)


def test_a_field_that_is_not_declared_is_refused(invited):
    with pytest.raises(InvalidPayload, match="rôle"):
        duebox.emit("member.invited", {"email": "a@b.example", "role": "admin", "rôle": "x"}, organization=7)
    assert not Event.objects.exists()


def test_a_missing_field_is_refused_by_name(invited):
    with pytest.raises(InvalidPayload, match="role"):
        duebox.emit("member.invited", {"email": "a@b.example"}, organization=7)


def test_a_type_that_nobody_declared_is_refused_with_the_nearest_one(invited):
    with pytest.raises(UndeclaredEvent, match=r"did you mean 'member\.invited'\?"):
        duebox.emit("member.invitd", {})
    with pytest.raises(UndeclaredEvent, match=r"set DUEBOX\['UNDECLARED'\] = 'allow'"):
        duebox.emit("something.else_happened", {})
    assert not Event.objects.exists()


def test_while_migrating_undeclared_types_may_be_allowed(settings):
    settings.DUEBOX = {"UNDECLARED": "allow"}
    assert duebox.emit("something.else_happened", {"any": "thing"}).version == 1


def test_an_instance_of_any_other_class_is_refused():
    with pytest.raises(UndeclaredEvent, match=r"emit a name, or an instance of a class under @duebox\.event"):
        duebox.emit(object())


def test_the_class_itself_is_refused_with_the_instance_to_emit(invited):
    with pytest.raises(InvalidEvent, match=r"emit an instance: MemberInvited\(\.\.\.\)\.$"):
        duebox.emit(invited)
    with pytest.raises(InvalidEvent, match="emit an instance"):
        duebox.emit(invited, {"role": "admin"}, organization=7)


def test_the_values_of_what_cannot_be_emitted_are_not_repeated(invited):
    with pytest.raises(InvalidEvent) as refused:
        duebox.emit(invited(email="john@private.example", role="admin"), {"role": "admin"}, organization=7)
    assert str(refused.value).startswith("An instance of MemberInvited carries its own data")
    with pytest.raises(UndeclaredEvent) as undeclared:
        duebox.emit(["john@private.example"])
    assert "john" not in f"{refused.value} {undeclared.value}"


def test_an_instance_has_its_own_data_and_version(invited):
    new = invited(email="a@b.example", role="admin")
    with pytest.raises(InvalidEvent, match="leave data and version out"):
        duebox.emit(new, {"role": "other"}, organization=7)
    with pytest.raises(InvalidEvent, match="leave data and version out"):
        duebox.emit(new, version=2, organization=7)


def test_without_a_version_the_newest_is_meant_and_others_can_be_named(declare):
    declare("member.invited")(shape(role=str))
    declare("member.invited", version=2)(shape(roles=list[str]))
    assert duebox.emit("member.invited", {"roles": ["admin"]}).version == 2
    assert duebox.emit("member.invited", {"role": "admin"}, version=1).version == 1
    with pytest.raises(UndeclaredEvent, match="has no version 3; declared are v1, v2"):
        duebox.emit("member.invited", {"role": "admin"}, version=3)


def test_a_type_that_says_what_it_is_about_is_emitted_about_one(declare):
    declare("member.invited", aggregate="member")(shape(role=str))
    assert duebox.emit("member.invited", {"role": "x"}, about=("member", 1)).about == ("member", "1")
    with pytest.raises(InvalidEvent, match=r"it has no about; pass about=\('member', id\)"):
        duebox.emit("member.invited", {"role": "x"})
    with pytest.raises(InvalidEvent, match="it is about a 'guest'"):
        duebox.emit("member.invited", {"role": "x"}, about=("guest", 1))


def test_in_a_batch_one_refusal_refuses_all(invited):
    good = duebox.NewEvent(type=invited(email="a@b.example", role="admin"), organization=7)
    with pytest.raises(InvalidPayload):
        duebox.emit_many([good, duebox.NewEvent(type="member.invited", data={}, organization=7)])
    assert not Event.objects.exists()


# The public event


def test_with_an_event_goes_its_public_twin_with_the_allowed_fields_only(invited, on):
    on("public.*", name="outside")(lambda event: None)
    fact = duebox.emit(
        invited(email="a@b.example", role="admin"),
        organization=7, about=("member", 3), idempotency_key="k", actor="secret", metadata={"ip": "10.0.0.1"},
    )  # fmt: skip
    twin = Event.objects.get(type="public.member.invited")
    assert twin.data == {"role": "admin", "seats": 1}
    assert (twin.version, twin.organization, twin.aggregate_type, twin.aggregate_id) == (1, "7", "member", "3")
    assert (twin.causation_id, twin.correlation_id) == (fact.id, fact.correlation_id)
    assert (twin.idempotency_key, twin.actor, twin.metadata) == (None, None, {})
    assert Delivery.objects.get().event_id == twin.pk


def test_without_an_organization_nothing_of_it_is_stored(invited):
    with pytest.raises(InvalidEvent, match="has a public event, which needs an organization"):
        duebox.emit(invited(email="a@b.example", role="admin"))
    assert not Event.objects.exists()


def test_nobody_emits_a_public_event_by_hand(invited):
    with pytest.raises(InvalidEvent, match=r"Duebox creates it when 'member\.invited' is emitted"):
        duebox.emit("public.member.invited", {"role": "admin"}, organization=7)


def test_the_twin_is_rolled_back_with_its_event(invited):
    with transaction.atomic():
        duebox.emit(invited(email="a@b.example", role="admin"), organization=7)
        transaction.set_rollback(True)
    assert not Event.objects.exists()


def test_the_same_key_again_makes_no_second_twin(invited):
    for _ in range(2):
        duebox.emit(invited(email="a@b.example", role="admin"), organization=7, idempotency_key="invite:1")
    assert sorted(Event.objects.values_list("type", flat=True)) == ["member.invited", "public.member.invited"]


def test_tests_see_the_twin_too(invited):
    with captured() as facts:
        duebox.emit(invited(email="a@b.example", role="admin"), organization=7)
    assert [fact.type for fact in facts] == ["member.invited", "public.member.invited"]


def test_what_is_scheduled_is_checked_when_it_is_scheduled(invited):
    at = clock.now() + timedelta(hours=1)
    with pytest.raises(InvalidPayload, match="role"):
        duebox.schedule("member.invited", {"email": "a@b.example"}, at=at, organization=7)
    with pytest.raises(InvalidEvent, match="has a public event"):
        duebox.schedule(invited(email="a@b.example", role="admin"), at=at)


def test_what_a_schedule_emits_has_its_twin(invited):
    at = clock.now() + timedelta(hours=1)
    duebox.schedule(invited(email="a@b.example", role="admin"), at=at, organization=7)
    with travel(at + timedelta(hours=1)):
        drain()
    internal, twin = Event.objects.order_by("type")
    assert (internal.type, twin.type) == ("member.invited", "public.member.invited")
    assert (twin.causation_id, twin.data) == (internal.pk, {"role": "admin", "seats": 1})


def invitations(invited, number, **options):
    return [
        duebox.NewEvent(type=invited(email=f"{n}@b.example", role=f"r{n}"), organization=f"o{n}", **options)
        for n in range(number)
    ]


def pairs():
    """Each twin with the event it was made of."""
    events = {event.pk: event for event in Event.objects.all()}
    return [(events.get(twin.causation_id), twin) for twin in events.values() if twin.type.startswith("public.")]


def test_of_several_with_one_key_the_first_is_stored_with_its_own_twin(invited):
    facts = duebox.emit_many(invitations(invited, 50, idempotency_key="same"), on_conflict="first")
    assert {fact.organization for fact in facts} == {"o0"}
    [(internal, twin)] = pairs()
    assert (internal.organization, twin.organization, twin.data["role"]) == ("o0", "o0", "r0")


def test_each_twin_of_a_batch_belongs_to_its_own_event(invited):
    duebox.emit_many(invitations(invited, 20))
    assert len(pairs()) == 20
    for internal, twin in pairs():
        assert (twin.organization, twin.data["role"]) == (internal.organization, internal.data["role"])


@pytest.mark.parametrize("on_conflict", ["first", "error"])
def test_an_event_that_is_not_stored_has_no_twin_either(invited, declare, on_conflict):
    plain = declare("member.joined")(shape(role=str))
    duebox.emit(plain(role="a"), organization="acme", idempotency_key="k")
    public = declare("member.joined", version=2, public={"rank"})(shape(rank=str))
    with suppress(IdempotencyConflict):
        duebox.emit(public(rank="b"), organization="evil", idempotency_key="k", on_conflict=on_conflict)
    assert [event.organization for event in Event.objects.all()] == ["acme"]


@pytest.mark.django_db(transaction=True)
def test_outside_of_a_transaction_a_conflict_stores_nothing_of_the_batch(invited):
    duebox.emit(invited(email="a@b.example", role="admin"), organization=7, idempotency_key="used")
    batch = [*invitations(invited, 2), *invitations(invited, 1, idempotency_key="used")]
    with pytest.raises(IdempotencyConflict):
        duebox.emit_many(batch)
    assert Event.objects.count() == 2


def test_what_was_scheduled_before_its_type_had_a_twin_fires_without_one(declare, caplog):
    at = clock.now() + timedelta(hours=1)
    duebox.schedule(declare("member.joined")(shape(role=str))(role="a"), at=at)
    event_types.forget("member.joined")
    declare("member.joined", public={"role"})(shape(role=str))
    with travel(at + timedelta(hours=1)):
        drain()
    assert [event.type for event in Event.objects.all()] == ["member.joined"]
    assert "public event left out, no organization: type=member.joined" in caplog.text


def test_the_database_itself_takes_no_public_event_without_an_organization():
    with pytest.raises(IntegrityError, match="duebox_event_public_has_organization"), transaction.atomic():
        Event.objects.create(type="public.member.invited", occurred_at=clock.now())


@pytest.mark.django_db
@pytest.mark.parametrize("undeclared", ["allow", "refuse"])
def test_nobody_else_emits_the_events_of_duebox_itself(settings, undeclared):
    """Some of them make the engine do something, and what a stranger sends may choose its own type."""
    settings.DUEBOX = {"UNDECLARED": undeclared}
    with pytest.raises(InvalidEvent, match="begins with a prefix that is reserved for Duebox"):
        duebox.emit("duebox.task", {"task": "os.getcwd", "args": [], "kwargs": {}})
    with pytest.raises(InvalidEvent, match="begins with a prefix that is reserved for Duebox"):
        duebox.schedule("duebox.sweep.due", {"sweep": "x"}, at=datetime(2099, 1, 1), zone="UTC")
    stranger = {"specversion": "1.0", "id": "1", "source": "/x", "type": "com.example.duebox.task", "data": {}}
    with pytest.raises(InvalidEvent, match="begins with a prefix that is reserved for Duebox"):
        duebox.emit(**cloudevents.read_structured(stranger, prefix="com.example"))
    assert not Event.objects.exists()
