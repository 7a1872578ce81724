"""`duebox_emit`, called by SQL alone: stored in the caller's transaction, validated and routed by a worker, once."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.db.utils import DataError
from psycopg import sql
from psycopg.errors import InsufficientPrivilege
from psycopg.types.json import Jsonb

import duebox
from duebox.events import sql_events, subscribers
from duebox.models import Attempt, Delivery, Event
from duebox.signals import emitted
from duebox.store import operations
from duebox.testing import drain
from tests.support import connection_params, eventually

pytestmark = pytest.mark.django_db


def emit(type="order.paid", using=connection, **arguments):
    """By named notation, as any language would call it."""
    named = {name: Jsonb(value) if isinstance(value, dict | list) else value for name, value in arguments.items()}
    given = ", ".join(f"{name} => %({name})s" for name in named)
    with using.cursor() as cursor:
        cursor.execute(f"SELECT duebox_emit(%(type)s{', ' if given else ''}{given})", {"type": type, **named})
        return cursor.fetchone()[0]


@pytest.fixture
def paid(on):
    """A handler of `order.paid` that remembers the events."""
    seen = []
    on("order.paid", name="remember")(seen.append)
    return seen


def reasons():
    """The last lines of the errors that deliveries died of."""
    return [
        note.strip().splitlines()[-1] for note in Attempt.objects.filter(outcome="dead").values_list("note", flat=True)
    ]


# What is stored


def test_a_type_is_enough():
    before = datetime.now(UTC)
    event = Event.objects.get(pk=emit())
    assert (event.type, event.version, event.data, event.metadata) == ("order.paid", 1, {}, {})
    assert (event.aggregate_type, event.aggregate_id, event.organization, event.idempotency_key) == ("", "", "", None)
    assert event.correlation_id == str(event.pk)
    assert event.causation_id is None
    assert before - timedelta(seconds=1) < event.occurred_at < datetime.now(UTC) + timedelta(seconds=1)


def test_everything_that_is_given_is_stored():
    cause, moment = uuid4(), datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    given = {
        "data": {"total": 30, "lines": [{"sku": "a"}]}, "about_type": "order", "about_id": "7", "organization": "acme",
        "actor": {"type": "user", "id": "3", "email": "ann@example.com"}, 
        "correlation_id": "req-1", "idempotency_key": "order-7", "version": 3, "occurred_at": moment,
        "metadata": {"job": "nightly"}, "causation_id": cause, "producer": "billing",
    }  # fmt: skip
    event = Event.objects.get(pk=emit(**given))
    assert (event.aggregate_type, event.aggregate_id) == ("order", "7")
    given = {name: value for name, value in given.items() if not name.startswith("about")}
    assert {name: getattr(event, name) for name in given} == given


def test_null_means_the_default_as_drivers_send_it():
    names = ["data", "about_type", "about_id", "organization", "actor", "correlation_id", "idempotency_key", "version"]
    names += ["occurred_at", "metadata", "causation_id", "producer", "on_conflict"]
    event = Event.objects.get(pk=emit(**dict.fromkeys(names)))
    assert (event.version, event.data, event.metadata, event.organization) == (1, {}, {}, "")


def test_the_role_of_the_session_is_the_producer_unless_one_is_named():
    with connection.cursor() as cursor:
        cursor.execute("SELECT session_user")
        [role] = cursor.fetchone()
    assert Event.objects.get(pk=emit()).producer == role
    assert Event.objects.get(pk=emit(producer="billing")).producer == "billing"


def test_ids_are_of_version_7_and_in_the_order_of_time():
    ids = [emit() for _ in range(20)]
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}
    moments = [(id.int >> 80) / 1000 for id in ids]
    assert all(abs(moment - time.time()) < 60 for moment in moments)
    assert sorted(ids) == ids


def test_it_is_stored_with_one_delivery_to_the_router():
    id = emit(about_type="order", about_id="7")
    delivery = Delivery.objects.get()
    assert (delivery.event_id, delivery.subscriber, delivery.stream) == (id, "duebox.route", "order:7")
    emit()
    assert Delivery.objects.latest("id").stream is None


def test_it_is_committed_with_the_callers_transaction_or_not_at_all(elsewhere):
    emit(using=elsewhere)
    elsewhere.rollback()
    assert not Event.objects.exists()
    emit(using=elsewhere)
    assert not Event.objects.exists()
    elsewhere.commit()
    assert Event.objects.count() == Delivery.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "OrderPaid"}, "type is not the name of an event type; write lower snake case, as in order.paid"),
        ({"type": ""}, "type is not the name"),
        ({"type": None}, "type is not the name"),
        ({"type": "duebox.sweep.due"}, "types that begin with duebox. or public. are emitted by Duebox itself"),
        ({"type": "public.order.paid"}, "types that begin with duebox. or public. are emitted by Duebox itself"),
        ({"data": [1]}, "data must be a JSON object"),
        ({"metadata": [1]}, "metadata must be a JSON object"),
        ({"about_type": "order"}, "about_type and about_id belong together; pass both or none"),
        ({"about_id": "7"}, "about_type and about_id belong together"),
        ({"version": 0}, "version must be a whole number from 1 to 32767"),
        ({"version": 32768}, "version must be a whole number from 1 to 32767"),
        ({"idempotency_key": ""}, "idempotency_key is empty; pass a key, or NULL"),
        ({"on_conflict": "ignore"}, "on_conflict must be error or first"),
        ({"organization": "x" * 501}, "organization must be at most 500 printable characters"),
        ({"correlation_id": "a\nb"}, "correlation_id must be at most 500 printable characters"),
        ({"actor": {"id": "7"}}, "actor must be an object with the texts type and id, and perhaps email"),
        ({"actor": {"type": "user", "id": 7}}, "actor must be an object"),
        ({"actor": {"type": "user", "id": ""}}, "actor must be an object"),
        ({"actor": {"type": "user", "id": "7", "email": None}}, "actor must be an object"),
        ({"actor": {"type": "user", "id": "7", "name": "Ann"}}, "actor must be an object"),
        ({"actor": ["user", "7"]}, "actor must be an object"),
        ({"actor": Jsonb("ann")}, "actor must be an object"),
        (
            {"actor": {"type": "user", "id": "7", "email": "x" * 501}},
            "email of the actor must be at most 500 printable",
        ),
    ],
)
def test_a_mistake_is_refused_with_the_repair(arguments, message):
    with pytest.raises(DataError, match=f"duebox_emit: {message}"), transaction.atomic():
        emit(**arguments)
    assert not Event.objects.exists()


# Once per key


def test_the_same_key_gives_the_first_event_and_stores_nothing():
    given = {"idempotency_key": "order-7", "data": {"total": 30, "tax": 1}, "about_type": "order", "about_id": "7"}
    first = emit(**given)
    assert emit(**{**given, "data": {"tax": 1, "total": 30}}) == first
    assert emit("order.refunded", **given) != first
    assert (Event.objects.count(), Delivery.objects.count()) == (2, 2)


def test_a_key_of_emit_in_python_counts_too():
    first = duebox.emit("order.paid", {"total": 30}, idempotency_key="order-7")
    assert emit(data={"total": 30}, idempotency_key="order-7") == first.id
    again = emit("order.refunded", data={"total": 30}, idempotency_key="order-7")
    assert duebox.emit("order.refunded", {"total": 30}, idempotency_key="order-7").id == again


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"data": {"email": "bob@example.com"}}, "data"),
        ({"about_type": "order", "about_id": "8"}, "about"),
        ({"organization": "other"}, "organization"),
        ({"version": 2, "data": {}}, "data, version"),
    ],
)
def test_another_event_under_the_same_key_is_refused_without_its_values(other, differs):
    given = {"data": {"email": "ann@example.com"}, "idempotency_key": "invite:ann@example.com"}
    first = emit(**given)
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        emit(**{**given, **other})
    diag = caught.value.__cause__.diag
    assert diag.message_primary == (
        f"duebox_emit: order.paid was already emitted with this idempotency_key as {first}, with a different {differs}."
    )
    assert diag.constraint_name == "duebox_event_once_per_key"
    assert "example.com" not in str(caught.value)
    assert emit(**{**given, **other, "on_conflict": "first"}) == first
    assert Event.objects.count() == 1


def test_two_sessions_with_one_key_store_one_event(elsewhere):
    first = emit(using=elsewhere, idempotency_key="once")
    found = []
    with psycopg.connect(**connection_params()) as third:
        waiter = threading.Thread(target=lambda: found.append(emit(using=third, idempotency_key="once")))
        waiter.start()
        time.sleep(0.2)
        assert waiter.is_alive()  # it waits for the commit of the other
        elsewhere.commit()
        waiter.join()
    assert (found, Event.objects.count()) == ([first], 1)


# Routed by a worker


def test_it_is_delivered_to_everybody_who_receives_its_type(paid, on):
    all_orders = []
    on("order.*", name="all")(all_orders.append)
    id = emit(data={"total": 30}, about_type="order", about_id="7", organization="acme")
    drain()
    [event] = paid
    assert (event.id, event.data, event.about, event.organization) == (id, {"total": 30}, ("order", "7"), "acme")
    assert all_orders == [event]
    outcomes = Attempt.objects.order_by("id").values_list("subscriber", "outcome")
    assert list(outcomes) == [("duebox.route", "delivered"), ("remember", "delivered"), ("all", "delivered")]
    assert not Delivery.objects.exists()


def test_an_event_that_nobody_receives_is_routed_to_nobody():
    emit()
    assert drain().delivered == 1
    assert not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_sleeping_worker_hears_of_it_at_once(paid, hire, settings):
    settings.DUEBOX = {**settings.DUEBOX, "POLL_SECONDS": 30}
    worker = hire()
    eventually(lambda: worker.lease.id and is_listening())
    with psycopg.connect(**connection_params(), autocommit=True) as service:
        started = time.monotonic()
        emit(using=service)
    eventually(lambda: paid)
    assert time.monotonic() - started < 5


def is_listening():
    with connection.cursor() as cursor:
        cursor.execute("SELECT bool_or(listening) FROM duebox_worker")
        return cursor.fetchone()[0]


def test_a_public_event_gets_its_twin_once(declare, on):
    @declare("order.paid", public={"total"})
    class OrderPaid:
        total: int
        note: str = ""

    public = []
    on("public.order.paid", name="others")(public.append)
    ids = [emit(data={"total": number, "note": "inside"}, organization="acme") for number in (1, 2, 3)]
    drain()
    assert [(event.data, event.causation_id, event.organization) for event in public] == [
        ({"total": number}, id, "acme") for number, id in zip((1, 2, 3), ids, strict=True)
    ]
    assert Event.objects.filter(type="public.order.paid").count() == 3


@pytest.mark.django_db(transaction=True)
def test_events_of_one_aggregate_reach_an_ordered_handler_in_the_order_of_their_commits(on, hire):
    seen = []
    on("step.taken", name="in_order", ordered=True)(lambda event: seen.append((event.about[1], event.data["number"])))
    hire(threads=4)
    hire(threads=4)
    with psycopg.connect(**connection_params(), autocommit=True) as service:
        for number in range(60):
            emit("step.taken", using=service, data={"number": number}, about_type="walk", about_id=str(number % 3))
    eventually(lambda: len(seen) == 60)
    for walk in "012":
        numbers = [number for about, number in seen if about == walk]
        assert numbers == sorted(numbers)


def test_many_events_are_routed_in_a_few_round_trips(declare, on, django_assert_num_queries):
    @declare("order.paid", public={"total"})
    class OrderPaid:
        total: int

    on("order.paid", name="some")(lambda event: None)
    on("public.order.paid", name="others")(lambda event: None)
    for number in range(50):
        emit(data={"total": number}, organization="acme")
    Delivery.objects.all().delete()
    facts = [duebox.Fact(row) for row in rows()]
    with django_assert_num_queries(2):
        sql_events.route_all(facts, "default")
    assert Delivery.objects.filter(subscriber="some").count() == 50
    assert Delivery.objects.filter(subscriber="others").count() == 50


def rows():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id::text, type, version, date_part('epoch', occurred_at), aggregate_type, aggregate_id, "
            "organization, correlation_id, causation_id::text, actor::text, producer, idempotency_key, data::text, "
            "metadata::text FROM duebox_event ORDER BY id"
        )
        return cursor.fetchall()


@pytest.mark.django_db(transaction=True)
def test_one_invalid_event_keeps_no_others_from_being_routed(paid, hire, settings):
    settings.DUEBOX = {**settings.DUEBOX, "PAYLOAD_DEPTH": 3}
    with psycopg.connect(**connection_params()) as service:
        for number in range(40):
            emit(using=service, data={"number": number} if number % 10 else {"a": {"b": {"c": {"d": 1}}}})
    hire()
    eventually(lambda: len(paid) == 36 and Delivery.objects.filter(status="dead").count() == 4)
    assert sorted(event.data["number"] for event in paid) == [number for number in range(40) if number % 10]


def test_the_signal_of_an_emission_is_sent_when_it_is_routed(paid):
    told = []

    def listen(fact, using, **kwargs):
        told.append((fact.id, using))

    emitted.connect(listen)
    try:
        id = emit()
        assert told == []
        drain()
    finally:
        emitted.disconnect(listen)
    assert told == [(id, "default")]


def test_an_old_version_is_stored_as_it_came_and_handled_as_the_newest(declare, on):
    @declare("order.paid")
    class OrderPaid:
        cents: int

    @declare("order.paid", version=2, upcast=lambda data: {"euros": data["cents"] // 100})
    class OrderPaid2:
        euros: int

    seen = []
    on("order.paid", name="x")(lambda event: seen.append((event.version, event.data)))
    emit(data={"cents": 500})
    emit(data={"euros": 7}, version=2)
    drain()
    assert seen == [(2, {"euros": 5}), (2, {"euros": 7})]


# What is not as declared


@pytest.fixture
def strict(settings):
    settings.DUEBOX = {**settings.DUEBOX, "UNDECLARED": "refuse"}


def test_an_undeclared_event_is_a_dead_letter_and_a_redrive_routes_it_once_it_is_declared(strict, declare, paid):
    id = emit(data={"total": 30})
    assert drain(raises=False).dead == 1
    [letter] = operations.find("default", states=["dead"])
    assert (letter.event_id, letter.subscriber) == (str(id), "duebox.route")
    assert "The event type 'order.paid' is not declared; declare it with @duebox.event('order.paid')" in reasons()[0]

    @declare("order.paid")
    class OrderPaid:
        total: int

    assert operations.retry("default", [letter.id], note="it is declared now").ids == [letter.id]
    drain()
    assert [event.id for event in paid] == [id]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"total": "ann@example.com"}, "data.total: is a text and must be of type integer (order.paid v1); send data"),
        ({}, "data: lacks 'total' (order.paid v1)"),
        ({"total": 1, "note": "ann@example.com"}, "data: has 'note', undeclared (order.paid v1)"),
    ],
)
def test_data_that_is_not_as_declared_is_a_dead_letter_that_names_the_place_and_no_value(declare, paid, data, reason):
    @declare("order.paid")
    class OrderPaid:
        total: int

    emit(data=data)
    assert drain(raises=False).dead == 1
    assert reason in reasons()[0]
    assert "example.com" not in Attempt.objects.get(outcome="dead").note
    assert paid == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "order.paid is about a 'order', but it has no about; pass about=('order', id)"),
        ({"about_type": "user", "about_id": "7"}, "order.paid is about a 'order', but it is about a 'user'"),
        ({"about_type": "order", "about_id": "7"}, "has a public event, which needs an organization, but none"),
        ({"version": 2}, None),
    ],
)
def test_what_a_type_wants_around_its_data_is_wanted(declare, given, reason):
    @declare("order.paid", aggregate="order", public={"total"})
    class OrderPaid:
        total: int

    emit(data={"total": 1}, **given)
    drained = drain(raises=False)
    if reason is None:  # a version that newer code may know
        assert (drained.dead, Delivery.objects.get().status) == (0, "pending")
        return
    assert drained.dead == 1
    assert reason in reasons()[0]


def test_an_event_without_an_aggregate_that_somebody_takes_in_order_is_a_dead_letter(on):
    on("order.paid", name="in_order", ordered=True)(print)
    emit()
    assert drain(raises=False).dead == 1
    assert "takes 'order.paid' in order per aggregate, but the event has none" in reasons()[0]


def test_an_event_that_is_too_large_is_a_dead_letter(settings):
    settings.DUEBOX = {**settings.DUEBOX, "PAYLOAD_LIMIT_BYTES": 100}
    emit(data={"text": "x" * 200})
    assert drain(raises=False).dead == 1
    assert "over the limit of 100" in reasons()[0]


def test_a_dead_letter_of_the_router_holds_up_no_other_event_of_its_aggregate(declare, paid):
    @declare("order.paid")
    class OrderPaid:
        total: int

    for total in ("many", 7):
        emit(data={"total": total}, about_type="order", about_id="7")
    drain(raises=False)
    assert [event.data for event in paid] == [{"total": 7}]


def test_the_router_is_told_of_what_it_cannot_route_yet(paid):
    """Whoever receives what is not known while settings are wrong: the event waits."""
    emit()
    subscribers.refuse_all("Destination 'x' is wrong.")
    try:
        assert drain(raises=False).retried == 1
    finally:
        subscribers.refuse_all(None)
    assert Delivery.objects.get().subscriber == "duebox.route"


# Rights


@pytest.fixture
def billing(elsewhere):
    """A session of a role that may do nothing but connect."""
    role = f"billing_{uuid4().hex[:8]}"
    elsewhere.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    elsewhere.commit()

    def grant(what):
        elsewhere.execute(sql.SQL(what).format(role=sql.Identifier(role)))
        elsewhere.commit()

    with psycopg.connect(**connection_params(), autocommit=True) as session:
        session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        session.grant = grant
        yield session
    elsewhere.rollback()
    elsewhere.execute(sql.SQL("DROP OWNED BY {role}; DROP ROLE {role}").format(role=sql.Identifier(role)))
    elsewhere.commit()


def test_a_role_needs_the_right_to_execute_the_function_and_no_other(billing, paid):
    with pytest.raises(InsufficientPrivilege):
        emit(using=billing)
    billing.grant("GRANT EXECUTE ON FUNCTION duebox_emit TO {role}")
    id = emit(using=billing, data={"total": 30}, idempotency_key="once")
    assert emit(using=billing, data={"total": 30}, idempotency_key="once") == id
    for forbidden in ("SELECT * FROM duebox_event", "DELETE FROM duebox_delivery"):
        with pytest.raises(InsufficientPrivilege):
            billing.execute(forbidden)
    drain()
    assert [event.id for event in paid] == [id]


def test_the_tables_of_duebox_are_meant_whatever_the_search_path_is(billing, elsewhere):
    billing.grant("GRANT EXECUTE ON FUNCTION duebox_emit TO {role}")
    billing.execute("CREATE TEMP TABLE duebox_event (id uuid, type text)")
    billing.execute("SET search_path = pg_temp, public")
    id = emit(using=billing)
    billing.execute("SET search_path = pg_temp")
    with billing.cursor() as cursor:
        cursor.execute("SELECT public.duebox_emit('order.paid')")
        assert {id, cursor.fetchone()[0]} == set(Event.objects.values_list("id", flat=True))
        assert cursor.execute("SELECT count(*) FROM duebox_event").fetchone() == (0,)
