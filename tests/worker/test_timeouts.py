"""Handlers that take too long: interrupted, left behind, reported."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

import duebox
from duebox.exceptions import HandlerTimeout
from duebox.models import Attempt, Delivery, Worker
from duebox.testing import drain
from tests.app.models import Effect
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def write(event):
    Effect.objects.create(event_id=event.id, subscriber="it")


def first_attempt():
    return eventually(lambda: Attempt.objects.order_by("id").first())


@pytest.fixture
def free():
    """What handlers wait for that would hang otherwise; set after the test."""
    event = threading.Event()
    yield event
    event.set()


def test_an_atomic_handler_that_waits_for_the_database_is_cut_off_and_rolled_back(hire, on):
    @on("a.b", name="it", timeout=0.3)
    def handler(event):
        write(event)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")

    duebox.emit("a.b")
    begun = time.monotonic()
    hire()
    attempt = first_attempt()
    assert time.monotonic() - begun < 20
    assert attempt.outcome == "retried"
    assert "HandlerTimeout: it took longer than its timeout of 0.3 s; what it wrote is rolled back." in attempt.note
    assert not Effect.objects.exists()
    assert Delivery.objects.get().attempt == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'")
        assert cursor.fetchone() == (0,)


def test_an_atomic_handler_that_sleeps_elsewhere_is_rolled_back_and_its_thread_is_replaced(hire, on, free):
    @on("a.b", name="it", timeout=0.2)
    def handler(event):
        write(event)
        free.wait(60)

    on("a.c", name="other")(lambda event: None)
    duebox.emit("a.b")
    hire(threads=1)
    attempt = first_attempt()
    assert attempt.outcome == "retried"
    assert "free.wait(60)" in attempt.note, "the traceback says where it hangs"
    duebox.emit("a.c")
    eventually(lambda: Attempt.objects.filter(subscriber="other", outcome="delivered").exists())
    assert not Effect.objects.exists()


def test_what_a_handler_returns_after_its_timeout_is_ignored(hire, on, free, caplog):
    runs = []

    @on("a.b", name="it", atomic=False, timeout=1.0, retry=duebox.Retry(limit=1, first=0.01))
    def handler(event):
        runs.append(event.attempt)
        if len(runs) == 1:
            free.wait(60)
            return duebox.Discard("too late")
        return None

    duebox.emit("a.b")
    hire(threads=1)
    eventually(lambda: Attempt.objects.count() == 2)
    free.set()
    eventually(lambda: "handler ended after its timeout, its result is ignored" in caplog.text)
    assert runs == [1, 2]
    assert list(Attempt.objects.order_by("id").values_list("outcome", flat=True)) == ["retried", "delivered"]
    assert "handler does not end, its thread is abandoned: subscriber=it type=a.b" in caplog.text


def test_a_handler_that_times_out_every_time_is_a_dead_letter(hire, on, free):
    @on("a.b", name="it", atomic=False, timeout=0.1, retry=0)
    def handler(event):
        free.wait(60)

    duebox.emit("a.b")
    hire()
    assert first_attempt().outcome == "dead"
    assert "what it did is not undone" in Attempt.objects.get().note


@pytest.mark.parametrize("atomic", [True, False])
def test_an_async_handler_is_cancelled(on, atomic):
    cancelled = []

    @on("a.b", name="it", atomic=atomic, timeout=timedelta(milliseconds=100))
    async def handler(event):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(event.id)
            raise

    duebox.emit("a.b")
    [error] = drain(raises=False).errors
    assert isinstance(error, HandlerTimeout)
    assert len(cancelled) == 1
    assert Attempt.objects.get().outcome == "retried"


def test_without_a_worker_a_handler_that_took_too_long_has_failed_as_well(on):
    @on("a.b", name="it", timeout=0.01)
    def handler(event):
        write(event)
        time.sleep(0.05)

    duebox.emit("a.b")
    assert isinstance(drain(raises=False).errors[0], HandlerTimeout)
    assert not Effect.objects.exists()


def test_neighbours_of_one_that_times_out_in_a_shared_transaction_are_delivered(hire, on, free):
    @on("a.b", name="it", timeout=1.5)
    def handler(event):
        write(event)
        if event.data["number"] == 3:
            free.wait(60)

    worker = hire(threads=1)
    worker.pool.runner.durations["it"] = 0.001
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(6))
    eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 5)
    # The others may be delivered before the timeout is written.
    eventually(lambda: Attempt.objects.filter(outcome="retried").exists())
    assert Effect.objects.count() == 5


def test_neighbours_of_one_that_times_out_do_not_wait_for_the_next_poll(hire, on, free, configure):
    configure(LISTEN=True, POLL_SECONDS=60, LEASE_SECONDS=10)

    @on("a.b", name="it", timeout=1.5, retry=0)
    def handler(event):
        if event.data["number"] == 2:
            free.wait(60)

    worker = hire(threads=1)
    eventually(lambda: Worker.objects.get().listening)
    time.sleep(1.5)
    worker.pool.runner.durations["it"] = 0.001
    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": number}) for number in range(3))
    eventually(lambda: Attempt.objects.filter(outcome="dead").exists())
    eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 2, 10)


def test_a_handler_in_time_is_left_alone(hire, on):
    @on("a.b", name="it", timeout=30)
    def handler(event):
        write(event)

    duebox.emit_many([duebox.NewEvent(type="a.b")] * 20)
    hire()
    eventually(lambda: not Delivery.objects.exists())
    assert Effect.objects.count() == 20


def test_a_slow_handler_is_reported_once(hire, on, configure, caplog):
    configure(SLOW_HANDLER_SECONDS=0.2)

    @on("a.b", name="it", atomic=False)
    def handler(event):
        eventually(lambda: "handler is slow" in caplog.text)
        time.sleep(0.5)  # it is looked at several times more

    duebox.emit("a.b")
    hire()
    eventually(lambda: not Delivery.objects.exists())
    [record] = [each for each in caplog.records if each.message.startswith("handler is slow: subscriber=it type=a.b")]
    assert record.levelno == logging.WARNING


def test_a_worker_stops_although_a_handler_that_timed_out_still_hangs(hire, on, free, configure):
    @on("a.b", name="it", atomic=False, timeout=0.1)
    def handler(event):
        free.wait(60)

    configure(SHUTDOWN_SECONDS=60)
    duebox.emit("a.b")
    worker = hire(threads=1)
    first_attempt()
    worker.stop()
    eventually(lambda: not worker.lease.id)
    assert Delivery.objects.get().due_at > timezone.now()


def test_a_handler_that_hangs_on_its_last_chance_does_not_hold_up_other_deliveries_on_theirs(hire, on, free, configure):
    configure(THREADS=2, RESCUE_LIMIT=3, LEASE_SECONDS=30)
    begun = threading.Event()

    @on("a.b", name="it", atomic=False, timeout=0.5)
    def handler(event):
        begun.set()
        free.wait(60)

    on("a.c", name="other", atomic=False)(lambda event: None)
    worker = hire()

    def emit_on_last_chance(type):
        with transaction.atomic():
            event = duebox.emit(type)
            Delivery.objects.filter(event_id=event.id).update(rescues=2)

    emit_on_last_chance("a.b")
    assert begun.wait(30)
    for _ in range(3):
        emit_on_last_chance("a.c")
    eventually(lambda: Attempt.objects.filter(subscriber="other", outcome="delivered").count() == 3)
    # The others have their turn as soon as the thread is left, before the timeout is written.
    eventually(lambda: Attempt.objects.filter(subscriber="it", outcome="retried").count() == 1)
    eventually(lambda: Worker.objects.get(id=worker.lease.id).suspect is None)
    free.set()
    eventually(lambda: not worker.pool.runner.last_chance.locked())


def test_a_thread_that_was_not_replaced_because_too_many_hang_is_replaced_when_others_have_ended(
    hire, on, tune, caplog
):
    tune(abandoned_for_each=1)
    ends = [threading.Event() for _ in range(2)]

    @on("a.b", name="it", atomic=False, timeout=0.1, retry=0)
    def handler(event):
        ends[event.data["number"]].wait(60)

    on("a.c", name="other")(lambda event: None)
    worker = hire(threads=1)
    try:
        for number in range(2):
            duebox.emit("a.b", {"number": number})
            eventually(lambda number=number: Attempt.objects.count() == number + 1)
        eventually(lambda: "a handler thread is not replaced" in caplog.text)
        assert worker.pool.room() == 0, "nothing is claimed that no thread could run"
        duebox.emit("a.c")
        time.sleep(0.5)
        assert Delivery.objects.get(subscriber="other").lease is None
        ends[0].set()
        eventually(lambda: Attempt.objects.filter(subscriber="other", outcome="delivered").exists(), 10)
    finally:
        for each in ends:
            each.set()


def test_a_thread_that_was_not_replaced_is_replaced_when_its_own_handler_ends(hire, on, tune, caplog):
    tune(abandoned_for_each=0)
    end = threading.Event()

    @on("a.b", name="it", atomic=False, timeout=0.1, retry=0)
    def handler(event):
        end.wait(60)

    on("a.c", name="other")(lambda event: None)
    hire(threads=1)
    try:
        duebox.emit("a.b")
        eventually(lambda: "a handler thread is not replaced" in caplog.text)
        duebox.emit("a.c")
        end.set()
        eventually(lambda: Attempt.objects.filter(subscriber="other", outcome="delivered").exists(), 10)
    finally:
        end.set()
    assert caplog.text.count("a handler thread is not replaced") == 1
