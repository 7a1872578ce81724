from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

import duebox
from duebox.exceptions import EndlessDrain
from duebox.models import Attempt, Delivery, Event, Worker
from duebox.worker.drain import drain

pytestmark = pytest.mark.django_db


def test_everything_that_is_due_is_delivered_and_no_lease_stays_behind(on):
    seen = []
    on("a.*", name="it")(lambda event: seen.append(event.data["number"]))
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(250))
    assert drain().delivered == 250
    assert seen == list(range(250))
    assert not Delivery.objects.exists()
    assert not Worker.objects.exists()


def test_what_handlers_emit_is_delivered_too(on):
    @on("a.b", name="it")
    def handler(event):
        if event.data["left"]:
            duebox.emit("a.b", {"left": event.data["left"] - 1})

    duebox.emit("a.b", {"left": 5})
    assert drain().delivered == 6


def test_handlers_that_feed_themselves_are_stopped_at_the_limit_with_a_hint(on):
    @on("a.b", name="it")
    def handler(event):
        duebox.emit("a.b")

    duebox.emit("a.b")
    with pytest.raises(EndlessDrain, match=r"20 deliveries were made and more are due, next <<a.b .* to it, attempt 1"):
        drain(limit=20)
    assert not Worker.objects.exists()
    assert Delivery.objects.get().lease is None
    assert Event.objects.count() == 21


def test_the_limit_may_be_reached_exactly(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit_many([duebox.NewEvent(type="a.b")] * 5)
    assert drain(limit=5).delivered == 5


def test_errors_and_counts_are_kept(on):
    @on("a.b", name="it")
    def handler(event):
        raise {0: ValueError, 1: duebox.Permanent}[event.data["number"]]

    on("a.c", name="other")(lambda event: None)
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(2))
    duebox.emit("a.c")
    drained = drain()
    assert [type(error) for error in drained.errors] == [ValueError, duebox.Permanent]
    assert (drained.delivered, drained.retried, drained.dead) == (1, 1, 1)
    assert str(drained) == "delivered 1, retried 1, dead 1"
    assert str(drain()) == "nothing to do"


def test_what_is_due_later_stays_unless_the_time_is_given(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    Delivery.objects.update(due_at=timezone.now() + timedelta(days=1))
    assert drain().delivered == 0
    assert drain(now=timezone.now() + timedelta(days=2)).delivered == 1


def test_only_some_subscribers_may_be_served(on):
    for name in ("mail.welcome", "mail.bye", "report"):
        on("a.b", name=name)(lambda event, name=name: None)
    duebox.emit("a.b")
    assert drain(only=("mail.*",)).delivered == 2
    assert Delivery.objects.get().subscriber == "report"


def test_ordered_deliveries_of_one_aggregate_run_in_order_whatever_the_others_do(on):
    seen = []

    @on("a.b", name="it", ordered=True)
    def handler(event):
        seen.append((event.about[1], event.data["number"]))

    for number in range(120):
        duebox.emit("a.b", {"number": number}, about=("x", number % 3))
    drain()
    for aggregate in "012":
        numbers = [number for about, number in seen if about == aggregate]
        assert numbers == sorted(numbers)
    assert len(seen) == 120


def test_a_handler_that_ends_the_process_gives_back_what_was_claimed(on):
    @on("a.b", name="it", atomic=False)
    def handler(event):
        raise KeyboardInterrupt

    duebox.emit_many([duebox.NewEvent(type="a.b")] * 3)
    with pytest.raises(KeyboardInterrupt):
        drain()
    assert set(Delivery.objects.values_list("lease", "attempt")) == {(None, 0)}


@pytest.mark.django_db(databases=["default", "other"])
def test_another_alias_is_drained_on_its_own(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    duebox.emit("a.b", using="other")
    assert drain(using="other").delivered == 1
    assert (Delivery.objects.count(), Delivery.objects.using("other").count()) == (1, 0)


class TryTomorrow(duebox.Snooze):
    """A project may give an outcome that it often returns a name."""

    def __init__(self) -> None:
        super().__init__(timedelta(days=1))


def test_a_subclass_of_an_outcome_counts_as_that_outcome(on):
    on("a.b", name="later")(lambda event: TryTomorrow())
    duebox.emit("a.b")
    drain()
    assert Attempt.objects.get().outcome == "snoozed"
