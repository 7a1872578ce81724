from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

import duebox
from duebox.models import Event
from duebox.testing import drain
from tests.support import analyze

pytestmark = pytest.mark.django_db


def test_events_are_pending_dead_or_completed_by_their_deliveries(on):
    on("member.invited", name="fine")(lambda event: None)

    @on("member.left", name="hopeless")
    def hopeless(event):
        raise duebox.Permanent

    untouched, invited, left = (duebox.emit(each) for each in ("member.seen", "member.invited", "member.left"))
    assert {event.id for event in Event.objects.pending()} == {invited.id, left.id}
    assert {event.id for event in Event.objects.completed()} == {untouched.id}
    drain(raises=False)
    assert not Event.objects.pending().exists()
    assert {event.id for event in Event.objects.dead()} == {left.id}
    assert {event.id for event in Event.objects.completed()} == {untouched.id, invited.id}


def test_the_state_of_an_event_is_told_by_its_deliveries(on):
    on("member.invited", name="fine")(lambda event: None)
    on("member.left", name="fine_too")(lambda event: None)

    @on("member.left", name="hopeless")
    def hopeless(event):
        raise duebox.Permanent

    for each in ("member.invited", "member.left"):
        duebox.emit(each)
    drain(only="hopeless", raises=False)
    duebox.emit("member.seen")
    states = {"member.invited": "processing", "member.left": "failed", "member.seen": "completed"}
    assert dict(Event.objects.with_state().values_list("type", "state")) == states
    for kind, state in states.items():
        assert Event.objects.in_state(state).get().type == kind
    assert Event.objects.in_state("failed", "completed").count() == 2


def test_events_are_found_by_what_they_are_about():
    fact = duebox.emit("member.invited", about=("member", 42))
    duebox.emit("member.invited", about=("member", 43))
    assert Event.objects.about("member", 42).get().id == fact.id


@pytest.fixture
def many_events():
    """50,000 events about 10,000 orders, a tenth about nothing, in requests of five events each."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO duebox_event (
                id, type, occurred_at, aggregate_type, aggregate_id, correlation_id, data, metadata
            )
            SELECT gen_random_uuid(), 'order.changed', now(), CASE WHEN n % 10 > 0 THEN 'order' ELSE '' END,
                   CASE WHEN n % 10 > 0 THEN (n % 10000)::text ELSE '' END, 'request-' || n / 5, '{}', '{}'
            FROM generate_series(1, 50000) AS n
            """
        )
        analyze("duebox_event")


@pytest.mark.usefixtures("many_events")
@pytest.mark.large
def test_what_happened_to_an_entity_or_in_a_request_is_found_by_an_index():
    about, request = Event.objects.about("order", 77), Event.objects.filter(correlation_id="request-77")
    assert (about.count(), request.count()) == (5, 5)
    for found, index in ((about, "duebox_event_about"), (request, "duebox_event_correlation")):
        for query in (found, found.order_by("id"), found.order_by("-id")[:20]):
            plan = query.explain()
            assert f"on {index}" in plan, plan
            assert "Seq Scan" not in plan, plan


def test_an_event_says_what_it_is_about_and_when():
    duebox.emit("member.invited", about=("member", 42), occurred_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert str(Event.objects.get()) == "member.invited about member:42 at 2026-01-02 03:04:05 UTC"


@pytest.mark.parametrize("wrong", [{"type": ""}, {"aggregate_type": "member"}, {"aggregate_id": "1"}])
def test_the_database_refuses_half_an_event(wrong):
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.create(**{"type": "a.b", "occurred_at": datetime.now(UTC), **wrong})


def test_the_database_keeps_one_event_per_type_and_key():
    common = {"type": "a.b", "occurred_at": datetime.now(UTC)}
    Event.objects.create(**common)
    Event.objects.create(**common)
    Event.objects.create(**common, idempotency_key="k")
    with pytest.raises(IntegrityError, match="duebox_event_once_per_key"), transaction.atomic():
        Event.objects.create(id=uuid4(), **common, idempotency_key="k")
