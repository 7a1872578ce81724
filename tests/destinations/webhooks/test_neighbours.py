"""Endpoints beside each other: what happens to one is no business of the others."""

from __future__ import annotations

import threading

import pytest
from django.db.models import Count
from django.utils import timezone

from duebox import NewEvent, emit_many
from duebox.destinations.webhooks import endpoints as api
from duebox.models import Attempt, Delivery, DestinationState, WebhookEndpoint
from tests.destinations.webhooks.receiver import Reply
from tests.support import eventually

ORGANIZATIONS = ("1", "2", "3", "4")
EVENTS = 60


@pytest.mark.django_db(transaction=True)
def test_the_healthy_get_everything_while_others_hang_fail_or_redirect(configure, receiver, public, hire):
    configure(receiver.port, timeout=30.0)
    free = threading.Event()

    def reply(got):
        match got.path.rpartition("/")[2]:
            case "slow":
                free.wait(30)
            case "broken":
                return Reply(500)
            case "moved":
                return Reply(307, b"", (("Location", f"http://127.0.0.1:{receiver.port}/inside"),))
        return Reply()

    receiver.reply = reply
    for organization in ORGANIZATIONS:
        for kind in ("well", "fine", "slow", "broken", "moved"):
            api.create(organization, f"{receiver.url}/{organization}/{kind}", ["order.*"])
    hire()
    try:
        emit_many(
            NewEvent(
                type="order.paid", data={"total": number}, about=("order", number), organization=str(number % 4 + 1)
            )
            for number in range(EVENTS)
        )
        healthy = lambda: [got for got in list(receiver.got) if got.path.endswith(("/well", "/fine"))]  # noqa: E731
        eventually(lambda: len(healthy()) >= 2 * EVENTS, seconds=25)
        assert not any(got.path.endswith("/slow") for got in receiver.got)  # they are still at it
    finally:
        free.set()
    assert len({(got.path, got.id) for got in healthy()}) == len(healthy()) == 2 * EVENTS
    # The slow ones get theirs in the end.
    eventually(lambda: Attempt.objects.filter(outcome="delivered", subscriber__contains="/").count() == 3 * EVENTS)
    assert {got.path.split("/")[2] == got.event["workspace_id"] for got in receiver.got} == {True}
    assert not any("inside" in got.path for got in receiver.got)
    told = Attempt.objects.filter(outcome="retried").values("status").annotate(count=Count("id"))
    assert {each["status"] for each in told} <= {500, 307}
    assert Delivery.objects.filter(subscriber__startswith="to:", attempt__gt=0).exists()


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_whose_address_is_blocked_fails_and_its_events_wait(configure, receiver, public, hire):
    hooks = configure(receiver.port)
    row = api.create("1", receiver.url, ["order.*"]).endpoint
    WebhookEndpoint.objects.update(url=f"http://10.0.0.1:{receiver.port}/")
    hire()
    emit_many([NewEvent(type="order.paid", data={"total": 1}, about=("order", 1), organization="1")])
    gate = eventually(
        lambda: DestinationState.objects.filter(name=f"to:hooks/{row.pk}", failing_since__isnull=False).first()
    )
    assert "10.0.0.1" in gate.error
    assert Delivery.objects.get(subscriber=gate.name).status == "pending"
    WebhookEndpoint.objects.update(url=receiver.url)
    hooks.forget(row.pk)  # or wait for two seconds
    Delivery.objects.update(due_at=timezone.now())
    eventually(lambda: receiver.got)
