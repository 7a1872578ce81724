"""Which endpoints get a public event: those of its organization that want it, and nobody else."""

from __future__ import annotations

import psycopg
import pytest

import duebox
from duebox.destinations.webhooks import endpoints as api
from duebox.models import Attempt, Delivery, DestinationState, Event, WebhookEndpoint
from duebox.store.destinations import fan_out
from duebox.testing import drain
from duebox.worker.drain import drain as work
from tests.support import connection_params, eventually

pytestmark = pytest.mark.django_db


def paid(organization="7", total=150):
    return duebox.emit(
        "order.paid", {"total": total, "note": "between us"}, about=("order", 1), organization=organization
    )


def public_event():
    return Event.objects.get(type="public.order.paid")


def test_a_public_event_reaches_the_endpoint_of_its_organization(add, public, receiver):
    add("7")
    paid()
    drain()
    [got] = receiver.got
    event = public_event()
    assert got.event == {
        "id": str(event.id),
        "type": "order.paid",
        "version": 1,
        "timestamp": event.occurred_at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "workspace_id": "7",
        "data": {"total": 150},
    }
    assert got.id == str(event.id)
    assert not Delivery.objects.exists()


def test_what_is_not_public_goes_nowhere(add, public, receiver):
    add("7")
    duebox.emit("order.weighed", {"grams": 5}, organization="7")
    drain()
    assert receiver.got == []
    assert fan_out("default", "hooks", [str(Event.objects.get().id)]) == (0, 0)


def test_no_other_organization_sees_an_event(add, public, receiver):
    for organization in ("7", "77", "8", "seven"):
        add(organization, path=f"/{organization}")
    paid("7")
    paid("8")
    drain()
    assert sorted((got.path, got.event["workspace_id"]) for got in receiver.got) == [("/hook/7", "7"), ("/hook/8", "8")]


@pytest.mark.parametrize(
    ("pattern", "wants"),
    [
        ("order.paid", True),
        ("public.order.paid", True),
        ("order.*", True),
        ("*.paid", True),
        ("*", True),
        ("order.shipped", False),
        ("invoice.*", False),
        ("*.shipped", False),
        ("order_paid", False),
        ("orde_.*", False),  # an underscore is no placeholder
        ("rder.paid", False),
        ("order", False),
    ],
)
def test_an_endpoint_gets_the_types_that_it_wants(add, public, receiver, pattern, wants):
    add("7", pattern)
    paid()
    drain()
    assert len(receiver.got) == wants


def test_patterns_that_both_match_are_one_delivery(add, public, receiver):
    add("7", "order.*", "*.paid", "order.paid")
    paid()
    drain()
    assert len(receiver.got) == 1


def test_each_endpoint_has_its_own_delivery(add, public):
    first, second = add("7"), add("7")
    paid()
    work(only=("fan-out:hooks",))
    names = set(Delivery.objects.values_list("subscriber", flat=True))
    assert names == {f"to:hooks/{first.pk}", f"to:hooks/{second.pk}"}


def test_what_a_disabled_endpoint_misses_is_in_the_history(add, public, receiver):
    row = api.disable(add("7"), "moving house")
    add("7", "order.shipped")
    paid()
    drain()
    assert receiver.got == []
    [missed] = Attempt.objects.filter(subscriber=f"to:hooks/{row.pk}")
    assert (missed.outcome, missed.note) == ("discarded", "the endpoint is disabled: moving house")
    assert missed.event_id == public_event().id


def test_an_endpoint_that_is_enabled_again_gets_what_comes_then(add, public, receiver):
    row = api.disable(add("7"), "moving house")
    paid(total=1)
    drain()
    api.enable(row)
    paid(total=2)
    drain()
    assert [got.event["data"]["total"] for got in receiver.got] == [2]


def test_what_is_on_its_way_to_an_endpoint_that_is_removed_is_discarded(add, public, receiver):
    row = add("7")
    paid()
    work(only=("fan-out:hooks",))
    api.remove(row)
    drain()
    assert receiver.got == []
    assert Attempt.objects.get(subscriber__startswith="to:").note == "the endpoint was removed"


def test_so_is_what_waits_for_one_that_was_paused(add, public, receiver):
    row = add("7")
    api.pause(row, "moving house")
    paid()
    drain()
    assert Delivery.objects.filter(subscriber__startswith="to:").exists()
    api.remove(row)
    drain()
    assert not Delivery.objects.exists()
    assert not DestinationState.objects.exists()
    assert receiver.got == []


def test_a_delivery_with_a_name_that_is_none_is_discarded(hooks, db):
    from tests.destinations.conformance import a_fact

    [result] = hooks.part("no-uuid").deliver([a_fact()])
    assert result.reason == "the endpoint was removed"


def test_the_endpoints_that_are_asked_for_together_are_read_together(add, hooks, django_assert_num_queries):
    rows = [add("7") for _ in range(3)]
    keys = [*(str(row.pk) for row in rows), "no-uuid"]
    with django_assert_num_queries(1):
        hooks.prepare(keys)
        found = [hooks.part(key) for key in keys]
        hooks.prepare(keys)
    assert [each.row.pk for each in found[:3]] == [row.pk for row in rows]


def test_it_takes_one_round_trip(add, public, django_assert_num_queries):
    add("7"), add("7")
    paid()
    event = str(public_event().id)
    with django_assert_num_queries(1):
        assert fan_out("default", "hooks", [event]) == (2, 0)


def test_many_events_take_one_round_trip_and_keep_their_order(add, public, django_assert_num_queries):
    add("7")
    for total in range(5):
        paid(total=total)
    events = [str(each.id) for each in Event.objects.filter(type__startswith="public.").order_by("id")]
    with django_assert_num_queries(1):
        assert fan_out("default", "hooks", events) == (5, 0)
    stored = Delivery.objects.filter(subscriber__startswith="to:").order_by("id")
    assert [str(each.event_id) for each in stored] == events


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_sleeps_is_woken(add, public):
    from duebox.models import Worker
    from duebox.store import leases

    add("7")
    lease = leases.take("default", 60)
    leases.set_mode("default", lease, mode="listen", listening=True)
    paid()
    with psycopg.connect(**connection_params(), autocommit=True) as listener:
        listener.execute("LISTEN duebox")
        fan_out("default", "hooks", [str(public_event().id)])
        assert [each.channel for each in listener.notifies(timeout=5, stop_after=1)] == ["duebox"]
    assert Worker.objects.filter(listening=True).exists()


@pytest.mark.django_db(transaction=True)
def test_a_worker_delivers_to_all_endpoints(add, public, receiver, hire):
    for organization in ("7", "7", "8"):
        add(organization, path=f"/{organization}")
    hire()
    for total in range(20):
        paid("7", total)
    paid("8")
    eventually(lambda: len(receiver.got) >= 41)
    eventually(lambda: not Delivery.objects.exists())
    assert len(receiver.got) == 41
    assert {(got.path, got.event["workspace_id"]) for got in receiver.got} == {("/hook/7", "7"), ("/hook/8", "8")}


def test_the_address_of_a_row_that_was_written_by_hand_is_refused_when_it_is_used(add, public, receiver):
    row = add("7")
    WebhookEndpoint.objects.update(url="http://169.254.169.254/latest/meta-data")
    paid()
    work()
    tried = Attempt.objects.get(subscriber=f"to:hooks/{row.pk}")
    assert tried.outcome == "retried"
    assert "169.254.169.254" in tried.note
    assert "meta-data" not in tried.note
    assert receiver.got == []
