"""Handlers with a limit: how many run, how fast, and that the others do not wait for them."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import transaction

import duebox
from duebox.events import subscribers
from duebox.models import Attempt, Delivery, DestinationState
from duebox.models import Worker as Lease
from duebox.store import destinations
from duebox.testing import drain
from duebox.worker.worker import Worker
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def emit_many(count, type="a.b", **options):
    duebox.emit_many(duebox.NewEvent(type=type, data={"number": number}, **options) for number in range(count))


def all_done():
    return not Delivery.objects.exists()


@pytest.fixture
def free():
    """What handlers wait for that would hang otherwise; set after the test."""
    event = threading.Event()
    yield event
    event.set()


class Counter:
    """How many run at the same time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error):
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("atomic", [True, False])
def test_no_more_run_at_the_same_time_than_the_limit_says(hire, on, atomic):
    counter = Counter()

    @on("a.b", name="it", atomic=atomic, limit=duebox.Limit(concurrency=2))
    def handler(event):
        with counter:
            time.sleep(0.03)

    emit_many(20)
    hire(threads=6)
    eventually(all_done)
    assert counter.most == 2
    assert Attempt.objects.filter(outcome="delivered").count() == 20


def test_the_others_do_not_wait_for_one_that_is_at_its_limit(hire, on, free):
    @on("a.b", name="slow", atomic=False, limit=duebox.Limit(concurrency=1))
    def slow(event):
        free.wait(60)

    on("a.c", name="quick")(lambda event: None)
    emit_many(500)
    hire(threads=2)
    eventually(lambda: Delivery.objects.filter(subscriber="slow", lease__isnull=False).exists())
    emit_many(20, type="a.c")
    eventually(lambda: Attempt.objects.filter(subscriber="quick", outcome="delivered").count() == 20, 15)
    assert Delivery.objects.filter(subscriber="slow", lease__isnull=False).count() == 1


def test_the_rate_is_held_by_all_workers_together(hire, on):
    moments = []
    on("a.b", name="it", limit=duebox.Limit(rate=20, burst=1))(lambda event: moments.append(time.monotonic()))
    emit_many(21)
    hire(threads=2)
    hire(threads=2)
    eventually(all_done)
    assert len(moments) == 21
    assert max(moments) - min(moments) > 0.9


def test_a_failed_attempt_makes_room_for_the_next(hire, on):
    @on("a.b", name="it", limit=duebox.Limit(concurrency=1), retry=0)
    def handler(event):
        if event.data["number"] % 2:
            raise ValueError

    emit_many(6)
    hire()
    eventually(lambda: Attempt.objects.count() == 6)
    assert Delivery.objects.filter(status="dead").count() == 3


def test_one_that_times_out_makes_room_for_the_next(hire, on, free):
    @on("a.b", name="it", atomic=False, limit=duebox.Limit(concurrency=1), timeout=0.1, retry=0)
    def handler(event):
        if event.data["number"] == 0:
            free.wait(60)

    emit_many(3)
    hire(threads=1)
    eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 2)


def test_events_of_one_aggregate_keep_their_order_under_a_limit(hire, on):
    numbers = []
    limit = duebox.Limit(concurrency=3)
    on("a.b", name="it", ordered=True, limit=limit)(lambda event: numbers.append(event.data["number"]))
    emit_many(20, about=("x", 1))
    hire(threads=3)
    eventually(all_done)
    assert numbers == list(range(20))


def test_deliveries_under_an_old_name_are_limited_too(hire, on):
    on("a.b", name="old")(lambda event: None)
    emit_many(3)
    subscribers.remove("old")
    counter = Counter()

    @on("a.b", name="new", aliases=["old"], limit=duebox.Limit(concurrency=1))
    def handler(event):
        with counter:
            time.sleep(0.02)

    emit_many(3)
    hire(threads=3)
    eventually(all_done)
    assert counter.most == 1


def test_a_run_that_ends_when_nothing_is_due_waits_for_limited_handlers(on):
    on("a.b", name="it", limit=duebox.Limit(rate=20, burst=1))(lambda event: None)
    on("a.c", name="other")(lambda event: None)
    emit_many(5)
    emit_many(5, type="a.c")
    Worker(until_idle=True).run()
    assert all_done()


def test_a_run_with_nothing_but_limited_handlers_ends(on):
    on("a.b", name="it", limit=duebox.Limit(concurrency=1))(lambda event: None)
    emit_many(5)
    Worker(until_idle=True, only=("it",)).run()
    assert all_done()


def test_a_worker_without_limits_has_no_thread_for_them(on):
    on("a.b", name="it")(lambda event: None)
    assert Worker(only=("it",)).limited_handlers is None


def test_a_drain_asks_for_no_limit(on):
    on("a.b", name="it", limit=duebox.Limit(rate=0.001))(lambda event: None)
    emit_many(5)
    assert drain().delivered == 5


def test_the_tokens_of_a_handler_are_no_destination(hire, on):
    on("a.b", name="it", limit=duebox.Limit(rate=100))(lambda event: None)
    emit_many(1)
    hire()
    eventually(all_done)
    assert DestinationState.objects.get().name == "it"
    assert destinations.states("default") == []


@pytest.mark.parametrize("atomic", [True, False])
def test_ordered_deliveries_of_a_limited_handler_follow_each_other_at_once(hire, on, configure, atomic):
    configure(LISTEN=True, POLL_SECONDS=60)
    order = []
    limit = duebox.Limit(concurrency=4)
    on("a.b", name="it", ordered=True, atomic=atomic, limit=limit)(lambda event: order.append(event.data["number"]))
    hire(threads=4)
    eventually(lambda: Lease.objects.get().listening)
    time.sleep(1.5)
    emit_many(8, about=("order", "1"))
    eventually(lambda: len(order) == 8)
    assert order == list(range(8))


def test_a_limited_handler_is_retried_when_it_is_time_and_not_with_the_next_poll(hire, on, configure):
    configure(LISTEN=True, POLL_SECONDS=60)
    moments = []

    @on("a.b", name="it", atomic=False, retry=duebox.Retry(first=0.5, factor=1), limit=duebox.Limit(concurrency=1))
    def handler(event):
        moments.append(time.monotonic())
        if len(moments) < 3:
            raise ValueError

    hire(threads=2)
    eventually(lambda: Lease.objects.get().listening)
    time.sleep(1.5)
    duebox.emit("a.b")
    eventually(lambda: len(moments) == 3)


def test_a_crowd_in_one_stream_of_a_limited_handler_does_not_hold_up_other_streams(hire, on, free):
    done = []

    @on("a.b", name="it", ordered=True, limit=duebox.Limit(concurrency=2))
    def handler(event):
        if event.about[1] == "crowd":
            free.wait(60)
        done.append(event.about[1])

    emit_many(400, about=("order", "crowd"))
    duebox.emit("a.b", about=("order", "other"))
    hire(threads=3)
    eventually(lambda: done == ["other"])


def test_once_delivers_what_lies_behind_a_crowd_that_must_wait(on):
    done = []

    @on("a.b", name="it", ordered=True, retry=0, limit=duebox.Limit(concurrency=1))
    def handler(event):
        if event.about[1] == "crowd":
            raise ValueError
        done.append(event.about[1])

    emit_many(30, about=("order", "crowd"))
    duebox.emit("a.b", about=("order", "other"))
    Worker(until_idle=True).run()
    assert done == ["other"]


def is_listening(session):
    return session.execute("SELECT count(*) FROM duebox_worker WHERE listening").fetchone() != (0,)


def test_a_limited_handler_gets_what_was_emitted_before_the_worker_listened_and_committed_after(
    hire, on, configure, elsewhere
):
    configure(LISTEN=True, POLL_SECONDS=60)
    done = []
    on("a.b", name="it", limit=duebox.Limit(concurrency=1))(lambda event: done.append(event.id))
    with transaction.atomic():
        duebox.emit("a.b")
        hire(threads=1)
        eventually(lambda: is_listening(elsewhere))
        time.sleep(0.4)
    eventually(lambda: done)
