"""Emit: the transaction it lives in, the envelope, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import DatabaseError, connection, connections, transaction
from django.test import AsyncClient

import duebox
from duebox import NewEvent
from duebox.exceptions import InvalidEvent, InvalidPayload
from duebox.models import Delivery, Event
from duebox.testing import drain
from tests.app.models import Account
from tests.support import undone

pytestmark = pytest.mark.django_db


def test_a_rolled_back_transaction_leaves_nothing(on):
    on("member.invited", name="it")(lambda event: None)
    with undone():
        duebox.emit("member.invited")
    assert not Event.objects.exists()
    assert not Delivery.objects.exists()


def test_an_event_of_a_nested_block_is_kept_with_the_outer_one():
    with transaction.atomic(), transaction.atomic():
        duebox.emit("member.invited")
    assert Event.objects.count() == 1


def test_a_rolled_back_savepoint_takes_only_its_own_events_along():
    with transaction.atomic():
        duebox.emit("member.invited")
        with undone():
            duebox.emit("member.left")
    assert [event.type for event in Event.objects.all()] == ["member.invited"]


@pytest.mark.django_db(transaction=True)
def test_in_autocommit_an_event_is_visible_to_others_at_once(elsewhere, on):
    on("member.invited", name="it")(lambda event: None)
    fact = duebox.emit("member.invited")
    assert elsewhere.execute("SELECT event_id FROM duebox_delivery").fetchall() == [(fact.id,)]


@pytest.mark.django_db(transaction=True)
def test_in_a_transaction_an_event_is_visible_to_others_after_the_commit(elsewhere):
    count = "SELECT count(*) FROM duebox_event"
    with transaction.atomic():
        duebox.emit("member.invited")
        assert elsewhere.execute(count).fetchone() == (0,)
    assert elsewhere.execute(count).fetchone() == (1,)


@pytest.mark.django_db(databases=["default", "other"])
def test_an_event_goes_to_the_alias_it_was_given():
    duebox.emit("member.invited", using="other")
    assert not Event.objects.exists()
    assert Event.objects.using("other").get().type == "member.invited"


@pytest.mark.django_db(databases=["default", "other"])
def test_a_rollback_on_another_alias_leaves_nothing_there():
    with undone("other"):
        duebox.emit("member.invited", using="other")
    assert not Event.objects.using("other").exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_alias_of_the_settings_is_used_unless_one_is_given(settings):
    settings.DUEBOX = {**settings.DUEBOX, "DATABASE": "other"}
    duebox.emit("member.invited")
    assert (Event.objects.count(), Event.objects.using("other").count()) == (0, 1)


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)


@pytest.mark.django_db(transaction=True)
def test_with_atomic_requests_a_view_that_succeeds_keeps_its_event(client, atomic_requests):
    assert client.get("/open").json() == {"id": str(Event.objects.get().id)}


@pytest.mark.django_db(transaction=True)
def test_with_atomic_requests_a_view_that_fails_leaves_nothing(client, atomic_requests):
    client.raise_request_exception = False
    assert client.get("/open?fail").status_code == 500
    assert (Event.objects.count(), Account.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_an_async_view_emits_with_aemit():
    response = async_to_sync(AsyncClient().get)("/aopen")
    event = Event.objects.get()
    assert response.json() == {"id": str(event.id)}
    assert event.aggregate_id == str(Account.objects.get().pk)


@pytest.mark.django_db(transaction=True)
def test_aemit_belongs_to_the_transaction_of_the_async_view():
    client = AsyncClient(raise_request_exception=False)
    assert async_to_sync(client.get)("/aopen-in-transaction?fail").status_code == 500
    assert (Event.objects.count(), Account.objects.count()) == (0, 0)
    assert async_to_sync(client.get)("/aopen-in-transaction").status_code == 200
    assert (Event.objects.count(), Account.objects.count()) == (1, 1)


def test_an_event_its_deliveries_and_the_wake_up_are_one_round_trip(on, django_assert_num_queries):
    for name in ("a", "b", "c"):
        on("member.*", name=name)(lambda event, name=name: None)
    with django_assert_num_queries(1):
        duebox.emit("member.invited", {"a": 1})
    with django_assert_num_queries(1):
        duebox.emit_many([NewEvent(type="member.invited"), NewEvent(type="member.left")])
    assert Delivery.objects.count() == 9


def test_emitting_nothing_asks_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert duebox.emit_many([]) == []


def test_emit_many_gives_the_facts_back_in_the_order_given():
    facts = duebox.emit_many(NewEvent(type="member.invited", data={"number": number}) for number in range(50))
    assert [fact.data["number"] for fact in facts] == list(range(50))
    assert [event.data["number"] for event in Event.objects.order_by("id")] == list(range(50))


def test_the_envelope_is_stored_and_given_back(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PRODUCER": "clinic"}
    account, cause, moment = Account.objects.create(), uuid4(), datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC)
    fact = duebox.emit(
        "account.opened",
        {"a": 1},
        about=account,
        organization=7,
        idempotency_key="k",
        actor="3",
        version=2,
        occurred_at=moment,
        correlation_id="request-1",
        causation_id=cause,
        metadata={"ip": "::1"},
    )
    event = Event.objects.get()
    assert (event.id, event.type, event.version, event.occurred_at) == (fact.id, "account.opened", 2, moment)
    assert (event.aggregate_type, event.aggregate_id, event.organization) == ("app.account", str(account.pk), "7")
    assert (event.correlation_id, event.causation_id, event.actor) == (
        "request-1",
        cause,
        {"type": "user", "id": "3"},
    )
    assert (event.producer, event.idempotency_key) == ("clinic", "k")
    assert (event.data, event.metadata) == ({"a": 1}, {"ip": "::1"})
    assert (fact.about, fact.occurred_at, fact.causation_id) == (("app.account", str(account.pk)), moment, cause)


def test_a_first_event_is_its_own_correlation_and_has_no_cause():
    fact = duebox.emit("member.invited")
    assert (fact.correlation_id, fact.causation_id) == (str(fact.id), None)
    assert abs(fact.occurred_at - datetime.now(UTC)) < timedelta(seconds=5)
    assert fact.data == {}


@pytest.mark.parametrize("is_async", [False, True])
def test_an_event_emitted_in_a_handler_inherits_correlation_cause_and_actor(on, is_async):
    def left(event):
        duebox.emit("member.left")

    async def aleft(event):
        await duebox.aemit("member.left")

    on("member.invited", name="it")(aleft if is_async else left)
    first = duebox.emit("member.invited", actor="3", correlation_id="request-1")
    drain()
    second = Event.objects.get(type="member.left")
    assert (second.correlation_id, second.causation_id, second.actor) == (
        "request-1",
        first.id,
        {"type": "user", "id": "3"},
    )


def test_what_a_handler_says_itself_wins_over_what_it_would_inherit(on):
    cause = uuid4()

    @on("member.invited", name="it")
    def handler(event):
        duebox.emit("member.left", correlation_id="own", causation_id=cause, actor={"type": "robot", "id": "r2"})

    duebox.emit("member.invited", actor="3")
    drain()
    event = Event.objects.get(type="member.left")
    assert (event.correlation_id, event.causation_id, event.actor) == (
        "own",
        cause,
        {"type": "robot", "id": "r2"},
    )


@pytest.mark.django_db(databases=["default", "other"])
def test_what_a_handler_emits_goes_to_the_database_that_is_being_served(on):
    on("member.invited", name="it")(lambda event: duebox.emit("member.left") and None)
    duebox.emit("member.invited", using="other")
    drain(using="other")
    assert Event.objects.using("other").filter(type="member.left").exists()
    assert not Event.objects.exists()


def test_a_moment_keeps_its_instant_whatever_its_zone():
    moment = datetime(2026, 7, 1, 9, 0, 0, 1, tzinfo=timezone(timedelta(hours=9)))
    assert duebox.emit("member.invited", occurred_at=moment).occurred_at == moment
    assert Event.objects.get().occurred_at == moment


class NoName:
    def __str__(self):
        return ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"type": "invited"},
            "'invited' is not lower snake case with a dot; name it .*, such as 'member.invited'",
        ),
        ({"type": "Member.Invited"}, "is not lower snake case"),
        ({"type": "member.invited\n"}, "is not lower snake case"),
        ({"type": None}, "The event is a NoneType"),
        ({"type": "a." + "b" * 500}, "has 502 characters; use 200 at most"),
        ({"about": 42}, r"about is a int; pass a saved model instance, or a pair like \('shop.order', 42\)"),
        ({"about": ("member",)}, "or a pair"),
        ({"about": ("", 1)}, "or a pair"),
        ({"about": ("member", None)}, "or a pair"),
        ({"about": ("member", "x" * 501)}, "about='x+' must be 1 to 500 printable characters"),
        ({"organization": ""}, "organization='' must be 1 to 500 printable"),
        ({"organization": NoName()}, "organization is a NoName; pass a text"),
        ({"actor": "a\x00b"}, r"actor='a\\x00b' must be"),
        ({"idempotency_key": ""}, "idempotency_key='' must be"),
        ({"idempotency_key": "two\nlines"}, "idempotency_key="),
        ({"correlation_id": "\ud83d"}, "correlation_id="),
        ({"causation_id": "not a uuid"}, "causation_id='not a uuid' must be a UUID"),
        ({"version": 0}, "version=0 must be a whole number from 1 to 32767"),
        ({"version": 40_000}, "version=40000"),
        ({"version": "1"}, "version='1'"),
        ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at=2026-01-01 00:00:00 is naive"),
        ({"occurred_at": date(2026, 1, 1)}, "occurred_at=2026-01-01 .*datetime"),
        ({"occurred_at": 1_790_000_000}, "occurred_at=1790000000 .*datetime"),
    ],
)
def test_a_bad_value_in_the_envelope_is_refused_before_the_database_hears_of_it(options, message):
    with pytest.raises(InvalidEvent, match=message):
        duebox.emit(**{"type": "member.invited", **options})
    assert not Event.objects.exists()  # and the transaction is still good


@pytest.mark.parametrize("field", ["about", "organization", "actor"])
def test_an_unsaved_model_is_refused(field):
    with pytest.raises(InvalidEvent, match=r"is a Account that has no primary key yet; save it first"):
        duebox.emit("member.invited", **{field: Account()})


def test_a_bad_payload_is_refused_with_its_path():
    with pytest.raises(InvalidPayload, match=r"^data\.who\[0\]: is a tests\.app\.models\.Account.*pass its id"):
        duebox.emit("member.invited", {"who": [Account()]})
    with pytest.raises(InvalidPayload, match=r"^metadata\.at: is a naive datetime"):
        duebox.emit("member.invited", metadata={"at": datetime(2026, 1, 1)})


def test_one_bad_event_of_many_stores_none():
    with pytest.raises(InvalidPayload, match=r"^data\.a: "):
        duebox.emit_many([NewEvent(type="member.invited"), NewEvent(type="member.left", data={"a": {1}})])
    assert not Event.objects.exists()


def test_the_limits_of_the_payload_are_settings(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PAYLOAD_LIMIT_BYTES": 20, "PAYLOAD_DEPTH": 2}
    with pytest.raises(InvalidPayload, match="over the limit of 20"):
        duebox.emit("member.invited", {"a": "x" * 20})
    with pytest.raises(InvalidPayload, match="nested too deeply"):
        duebox.emit("member.invited", {"a": {"b": {}}})


def test_an_ordered_subscriber_needs_an_aggregate(on):
    on("member.invited", name="in.order", ordered=True)(lambda event: None)
    with pytest.raises(InvalidEvent, match=r"'in.order' takes 'member.invited' in order .*emit it with about="):
        duebox.emit("member.invited")


def test_an_emit_in_a_broken_transaction_fails_and_says_why():
    with undone():
        with connection.cursor() as cursor, pytest.raises(DatabaseError):
            cursor.execute("SELECT 1/0")
        with pytest.raises(DatabaseError, match="current transaction is aborted"):
            duebox.emit("member.invited")
