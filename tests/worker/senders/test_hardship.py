"""Destinations that misbehave: none of it may hurt another one, lose an event, or cost the worker its lease."""

from __future__ import annotations

import threading
import time

import pytest

import duebox
from duebox.exceptions import InvalidDestination, Permanent, Throttled, Undelivered
from duebox.models import Attempt, Delivery, DestinationState
from duebox.store import destinations as store
from duebox.store.run_sql import execute
from duebox.worker.worker import Worker
from tests.app.outside import Post, Single
from tests.support import analyze, eventually

pytestmark = pytest.mark.django_db(transaction=True)
BREAKER = {"calls": 5, "share": 0.5, "window": 60.0, "pause": 0.3, "longest": 60.0}


class Broken(Single):
    """Cannot be made, for a reason that nobody thought of."""

    def __init__(self, alias, **options):
        raise RuntimeError("out of luck")


def emit(count=1, type="order.paid", **options):
    return duebox.emit_many([duebox.NewEvent(type=type, data={"number": n}, **options) for n in range(count)])


def history(outcome):
    return Attempt.objects.filter(outcome=outcome).count()


def test_one_that_cannot_be_made_for_whatever_reason_stops_no_other(destinations, hire, monkeypatch):
    monkeypatch.setattr("tests.app.outside.Broken", Broken, raising=False)
    boxes = destinations_without_making(destinations, a={"KIND": "Broken"}, b={"KIND": "Single"})
    emit(3)
    worker = Worker(until_idle=True)
    worker.run()
    assert len(boxes["b"].calls) == 3
    assert Delivery.objects.filter(subscriber="to:a", attempt=0, lease=None).count() == 3


def destinations_without_making(destinations, **entries):
    try:
        return destinations(**entries)
    except InvalidDestination:
        return Post.boxes


@pytest.mark.parametrize("answer", ["ok", b"201", 7, object()])
def test_an_answer_that_is_none_is_an_error_of_the_destination(destinations, hire, answer):
    boxes = destinations(backend="Single", post={}, other={})
    boxes["post"]._answer = lambda fact: answer
    emit(1)
    worker = hire()
    eventually(lambda: history("dead") == 1)
    assert "deliver() gives None" in Attempt.objects.get(outcome="dead").note
    assert boxes["other"].calls
    assert worker.lease.id


@pytest.mark.parametrize(
    "error", [Undelivered("a\x00b"), Undelivered("x", status="teapot"), Undelivered("x", status=10**9)]
)
def test_an_error_that_cannot_be_stored_as_it_is_costs_no_lease(destinations, hire, error):
    boxes = destinations(backend="Single", post={"RETRY": {"limit": 1, "first": 0.01}})
    boxes["post"].answers = error
    emit(1)
    worker = hire()
    lease = worker.lease.id
    eventually(lambda: history("dead") == 1)
    assert worker.lease.id == lease
    assert Attempt.objects.filter(outcome="dead").get().status is None


def test_a_destination_that_fails_when_it_is_told_of_its_failures_is_served_all_the_same(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": BREAKER})
    boxes["post"].answers = Undelivered("out of order")
    boxes["post"].fails_since = None  # not even callable
    emit(20)
    hire()
    eventually(lambda: len(boxes["post"].calls) >= 5)
    boxes["post"].answers = None
    eventually(lambda: history("delivered") == 20)


def test_an_idle_courier_that_is_called_twice_does_not_keep_one_waiting(destinations, hire):
    boxes = destinations(backend="Single", slow={}, quick={})
    hire()
    emit(1)
    eventually(lambda: history("delivered") == 2)
    may_answer = threading.Event()
    boxes["slow"].answers = lambda fact: may_answer.wait(60) and None
    try:
        emit(1)
        eventually(lambda: len(boxes["quick"].calls) == 2)
    finally:
        may_answer.set()


def test_a_rate_holds_after_a_hiccup_too(destinations, hire):
    boxes = destinations(backend="Single", post={"RATE": 50, "BURST": 5, "CONCURRENCY": 4})
    until = time.monotonic() + 2.0
    boxes["post"].answers = lambda fact: max(0.0, until - time.monotonic())
    emit(200)
    hire()
    eventually(lambda: len(boxes["post"].calls) > 60)
    after = [at for at in boxes["post"].at if at >= until]
    first_second = [at for at in after if at < until + 1.0]
    assert len(first_second) <= 50 + 5 + 10


def test_the_probe_of_an_ordered_destination_finds_an_event_that_may_go(destinations, hire):
    slow_retry = {"limit": 5, "first": 600.0, "jitter": 0.0}
    boxes = destinations(post={"ORDERED": True, "BREAKER": BREAKER, "RETRY": slow_retry})
    boxes["post"].answers = Undelivered("out of order")
    for about in range(6):
        emit(2, about=("order", about))
    hire()
    eventually(lambda: (g := DestinationState.objects.filter(name="to:post").first()) and g.open_until)
    boxes["post"].answers = None
    emit(3, about=("order", 99))
    eventually(lambda: history("delivered") >= 3)


def test_an_event_that_is_not_fit_for_it_closes_no_breaker(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": {**BREAKER, "pause": 0.2}, "CONCURRENCY": 1})
    boxes["post"].answers = Undelivered("out of order")
    emit(10)
    hire()
    eventually(lambda: (g := DestinationState.objects.filter(name="to:post").first()) and g.open_until)
    boxes["post"].answers = Permanent("too large")
    eventually(lambda: history("dead") >= 2)
    assert DestinationState.objects.get(name="to:post").open_until is not None


def test_a_pause_takes_back_what_a_worker_holds_already(destinations, hire):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 1})
    boxes["post"].answers = 0.02
    emit(300)
    hire()
    eventually(lambda: len(boxes["post"].calls) >= 20)
    store.pause("default", "to:post", "enough")
    eventually(lambda: not Delivery.objects.filter(lease__isnull=False).exists())
    before = len(boxes["post"].calls)
    assert before < 300
    time.sleep(0.5)
    assert len(boxes["post"].calls) == before


def test_once_sends_everything_that_a_rate_allows_in_time(destinations):
    boxes = destinations(backend="Single", post={"RATE": 40, "BURST": 2})
    emit(40)
    Worker(until_idle=True).run()
    assert len(boxes["post"].calls) == 40


def test_once_waits_for_what_a_handler_sends_late(destinations, on):
    boxes = destinations(routes=[{"match": "order.*", "to": "post"}], backend="Single")

    @on("ask.made", atomic=False)
    def answer(event):
        time.sleep(0.3)
        duebox.emit("order.paid", {"number": 1})

    duebox.emit("ask.made")
    Worker(until_idle=True).run()
    assert len(boxes["post"].calls) == 1


def test_a_rate_that_is_set_while_events_wait_is_kept(destinations, hire):
    boxes = destinations(routes=[], backend="Parts")
    part = Single("post/a")
    part.answers = 0.01
    for _ in range(30):
        duebox.emit("letter.sent", {"letters": ["a"]})
    hire()
    eventually(lambda: len(part.calls) >= 3)
    part.policy = duebox.destinations.base.DestinationPolicy(rate=100.0)
    eventually(lambda: len(part.calls) == 30)
    assert boxes["post/a"] is part


def test_nobody_is_left_alone_for_more_than_a_day():
    assert Throttled("busy", seconds=float("inf")).seconds == 86_400
    assert Throttled("busy", seconds=-5).seconds == 0
    assert Throttled("busy", seconds=float("nan")).seconds == 0


def test_many_that_wait_in_two_streams_are_looked_through_at_once(transactional_db):
    from django.db import connection, transaction

    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO duebox_delivery (event_id, subscriber, stream, status) SELECT gen_random_uuid(), 'mirror', "
            "'s:' || n % 2, CASE WHEN n < 2 THEN 'pending' ELSE 'waiting' END FROM generate_series(0, 29999) AS n"
        )
    analyze("duebox_delivery")
    Delivery.objects.filter(stream="s:1").earliest("id").delete()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '4s'")
        execute("stream_promote_all", "default", {})
    heads = Delivery.objects.filter(status="pending").values_list("stream", flat=True)
    assert sorted(heads) == ["s:0", "s:1"]


def test_a_worker_with_an_idle_crew_of_couriers_ends_at_once(destinations, hire):
    boxes = destinations(backend="Single")
    emit(5)
    worker = hire()
    eventually(lambda: len(boxes["post"].calls) == 5)
    started = time.monotonic()
    worker.stop()
    eventually(lambda: not any(t.name.startswith("duebox-sender-") for t in threading.enumerate()))
    assert time.monotonic() - started < 5
