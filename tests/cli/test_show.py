"""`duebox show`: what an id or a name means, and what is shown of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated

import pytest
from django.core.management.base import CommandError

import duebox
from duebox.context import bound
from duebox.contracts import PII
from duebox.exceptions import NotFound
from duebox.models import Delivery, Schedule
from duebox.observe.find import Target, find
from duebox.testing import drain
from tests.app.people import Person

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(manage):
    return lambda *words: manage("duebox", "show", *words)


@pytest.fixture
def event(on):
    on("order.paid", name="mail")(lambda event: None)
    with bound(correlation_id="request-1", actor=7):
        return duebox.emit("order.paid", {"number": "A-3"}, about=("shop.order", 42), idempotency_key="paid:42")


@pytest.fixture
def bell():
    return duebox.schedule("bell.rung", after=timedelta(hours=1), key="bell:1", about=("tower", 1))


def test_what_is_meant_is_found_by_each_kind_of_name(event, bell):
    delivery = Delivery.objects.get()
    Schedule.objects.filter(key="bell:1").update(id=delivery.id + 1000)
    assert find(str(event.id)) == Target("event", str(event.id))
    assert find(str(delivery.id)) == Target("delivery", str(delivery.id))
    assert find("bell:1") == Target("schedule", "bell:1")
    assert find(str(delivery.id + 1000)) == Target("schedule", "bell:1")
    assert find("shop.order:42") == Target("entity", "shop.order:42")
    assert find("request-1") == Target("correlation", "request-1")


def test_an_entity_is_also_found_by_the_name_of_its_model():
    person = Person.objects.create()
    assert find(f"app.Person:{person.pk}") == Target("entity", f"app.person:{person.pk}")


def test_a_number_that_is_two_things_is_refused_until_one_is_chosen(event, bell):
    id = Delivery.objects.get().id
    Schedule.objects.filter(key="bell:1").update(id=id)
    with pytest.raises(NotFound, match=f"{id} is the id of a delivery, and of the schedule 'bell:1'; say which"):
        find(str(id))
    assert find(str(id), kind="schedule").id == "bell:1"


@pytest.mark.parametrize("name", ["bel:1", "17", "9" * 30, "no.such:thing", "", "01937c6e-0000-7000-8000-000000000000"])
def test_what_is_not_there_is_an_error_that_says_what_was_looked_for(run, bell, name):
    with pytest.raises(
        CommandError, match=r"Nothing is stored by the name .* looked for as the id of an event"
    ) as raised:
        run(name)
    assert "a correlation id." in str(raised.value)
    assert ("Did you mean the schedule 'bell:1'?" in str(raised.value)) == (name == "bel:1")


def test_an_event_is_shown_with_its_deliveries_and_without_its_data(run, event):
    shown = run(str(event.id))
    assert f"event {event.id}\n" in shown
    for line in ("type: order.paid", "about: shop.order:42", "actor: user:7", "correlation id: request-1"):
        assert line in shown
    assert "idempotency key: paid:42" in shown
    assert "deliveries:" in shown
    assert "A-3" not in shown
    assert "A-3" in run(str(event.id), "--payload")


def test_the_history_of_a_delivery_that_was_delivered_is_shown_by_its_event(run, event):
    drain()
    [attempt] = json.loads(run(str(event.id), "--json"))["attempts"]
    assert (attempt["subscriber"], attempt["outcome"]) == ("mail", "delivered")


def test_personal_data_is_masked_wherever_it_is(run, declare):
    @declare("member.invited")
    class Invited:
        name: str
        email: Annotated[str, PII]

    event = duebox.emit(Invited(name="Ann", email="ann@example.org"), about=("club", 1))
    schedule = duebox.schedule(Invited(name="Bob", email="bob@example.org"), after=timedelta(hours=1), key="later")
    shown = run(str(event.id), "--payload", "--json")
    assert json.loads(shown)["events"][0]["data"] == {"name": "Ann", "email": "****"}
    assert json.loads(run(schedule.key, "--payload", "--json"))["schedules"][0]["data"]["email"] == "****"
    assert "example.org" not in run("club:1", "--payload")


def test_a_schedule_is_shown_with_its_rule_and_its_log(run, bell):
    duebox.pause("bell:1")
    shown = run("bell:1")
    assert "key: bell:1" in shown
    assert "state: paused" in shown
    assert "log:" in shown


def test_a_request_lists_its_events(run, event):
    found = json.loads(run("request-1", "--json"))
    assert (found["kind"], [each["id"] for each in found["events"]]) == ("correlation", [str(event.id)])
    assert str(event.id) in run("request-1")


def test_a_delivery_shows_its_event_and_what_it_waits_for(run, on):
    @on("order.*", name="ledger", ordered=True)
    def handle(event):
        raise duebox.Permanent("account is closed")

    duebox.emit("order.paid", about=("shop.order", 42))
    drain(raises=False)
    duebox.emit("order.sent", about=("shop.order", 42))
    head, waiting = Delivery.objects.order_by("id")
    [row] = json.loads(run(str(waiting.id), "--as", "delivery", "--json"))["deliveries"]
    assert (row["id"], row["behind"]) == (waiting.id, head.id)
    assert "account is closed" in run(str(head.id), "--as", "delivery")


def test_explain_prints_what_happened_and_how_things_stand(manage, event):
    shown = manage("duebox", "explain", str(event.id)).splitlines()
    assert shown[0] == f"event {event.id}"
    assert "order.paid about shop.order:42 was recorded by user:7." in shown[1]
    assert shown[2] == "Now:"
    assert "no worker is alive" in shown[3]
    assert json.loads(manage("duebox", "explain", "request-1", "--json"))["kind"] == "correlation"
