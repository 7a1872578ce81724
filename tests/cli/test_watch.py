"""`duebox watch`: attempts as they happen, none left out and none twice."""

from __future__ import annotations

import json
import signal
from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone

import duebox
from duebox.models import Attempt, Delivery
from duebox.observe import watch
from duebox.observe.watch import Watch
from duebox.store import attempts
from duebox.testing import drain
from tests.support import connection_params


@pytest.fixture
def orders(on):
    on("order.paid", name="mail")(lambda event: None)

    @on("order.lost", name="police")
    def fail(event):
        raise ValueError("nobody answers")


def seen(found):
    return [(each.row.type, each.row.subscriber, each.row.outcome) for each in found]


@pytest.mark.django_db
def test_each_attempt_is_seen_once_with_its_event_and_how_it_ended(orders):
    watching = Watch()
    duebox.emit("order.paid", about=("shop.order", 1))
    duebox.emit("order.lost", about=("shop.order", 2))
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=5))
    drain(raises=False)
    found = sorted(watching.new(), key=lambda each: each.row.type)
    assert seen(found) == [("order.lost", "police", "retried"), ("order.paid", "mail", "delivered")]
    lost, paid = found
    assert lost.error == "ValueError: nobody answers"
    assert lost.wait_seconds == pytest.approx(60, abs=10)
    assert 5 <= paid.late_seconds < 30
    assert paid.about == "shop.order:1"
    assert watching.new() == []


@pytest.mark.django_db
def test_what_happened_before_is_not_shown_unless_asked_for(orders):
    duebox.emit("order.paid")
    drain()
    assert Watch().new() == []
    assert seen(Watch(after=0).new()) == [("order.paid", "mail", "delivered")]


@pytest.mark.django_db(transaction=True)
def test_what_commits_after_one_with_a_higher_id_is_seen_too():
    def attempt(connection):
        connection.execute(
            "INSERT INTO duebox_attempt (event_id, delivery_id, subscriber, number, outcome, due_at) "
            "VALUES (gen_random_uuid(), 1, 'mail', 1, 'delivered', now())"
        )

    watching = Watch()
    with psycopg.connect(**connection_params()) as slow, psycopg.connect(**connection_params()) as quick:
        attempt(slow)
        attempt(quick)
        quick.commit()
        [first] = watching.new()
        slow.commit()
        [second] = watching.new()
    assert second.row.id == first.row.id - 1
    assert watching.new() == []


@pytest.mark.django_db
def test_many_at_once_are_read_in_batches_without_a_pause(monkeypatch, orders):
    monkeypatch.setattr(watch, "BATCH", 2)
    watching = watch.watch(seconds=0)
    duebox.emit_many([duebox.NewEvent(type="order.paid")] * 5)
    drain()
    assert len(list(watching)) == 5


@pytest.mark.django_db
def test_types_and_handlers_are_chosen_by_patterns(monkeypatch, orders):
    duebox.emit("order.paid")
    duebox.emit("order.lost")
    drain(raises=False)
    monkeypatch.setattr(attempts, "last", lambda using: 0)
    assert seen(watch.watch(type="order.p*", seconds=0)) == [("order.paid", "mail", "delivered")]
    assert seen(watch.watch(handler="police", seconds=0)) == [("order.lost", "police", "retried")]


@pytest.mark.django_db
def test_the_first_attempt_of_what_a_schedule_fired_is_late_by_the_schedule(on):
    on("bell.rung", name="it")(lambda event: None)
    schedule = duebox.schedule("bell.rung", after=timedelta(hours=1), key="bell")
    type(schedule).objects.update(due_at=timezone.now() - timedelta(minutes=2))
    drain()
    [found] = Watch(after=0).new()
    assert found.late_seconds == pytest.approx(120, abs=30)


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_line_for_each_and_ends_cleanly_at_ctrl_c(start):
    process = start("duebox", "watch", "--interval", "0.05")
    assert process.stdout.readline().split() == ["time", "event", "about", "handler", "late", "outcome"]
    Attempt.objects.create(
        event_id="01937c6e-0000-7000-8000-000000000000", delivery_id=1, subscriber="mail", number=2,
        outcome="delivered", due_at=timezone.now(), took_ms=8.0,
    )  # fmt: skip
    assert process.stdout.readline().rstrip().endswith("delivered at attempt 2 in 8 ms")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert process.stderr.read() == ""


@pytest.mark.django_db
def test_as_json_there_is_one_object_a_line(manage, monkeypatch, orders):
    event = duebox.emit("order.paid", about=("shop.order", 1))
    drain()
    monkeypatch.setattr(attempts, "last", lambda using: 0)
    [line] = manage("duebox", "watch", "--json", "--seconds", "0.01").splitlines()
    found = json.loads(line)
    assert (found["event_id"], found["subscriber"], found["outcome"]) == (str(event.id), "mail", "delivered")
    assert found["late_seconds"] >= 0


@pytest.mark.django_db
def test_the_command_ends_after_so_many_seconds(manage):
    assert manage("duebox", "watch", "--seconds", "0.01").startswith("time ")
