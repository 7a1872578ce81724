"""A handler thread: what it runs together, what alone, and what it tells."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from importlib import import_module

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

import duebox
from duebox.models import Attempt, Delivery, Event
from duebox.models import Worker as WorkerRow
from duebox.signals import died, settled
from tests.app.models import Effect, Seat
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def emit_many(count, **options):
    return duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": n}, **options) for n in range(count))


def all_done():
    return not Delivery.objects.exists()


@pytest.fixture
def receive():
    connected = []

    def connect(signal):
        received = []

        def note(**arguments):
            received.append(arguments)

        signal.connect(note, weak=False)
        connected.append((signal, note))
        return received

    yield connect
    for signal, note in connected:
        signal.disconnect(note)


def test_quick_atomic_handlers_come_to_share_a_transaction(hire, on):
    transactions = []

    @on("a.b", name="it")
    def handler(event):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text")
            transactions.append(cursor.fetchone()[0])

    emit_many(200)
    hire(threads=1)
    eventually(all_done)
    assert len(transactions) == 200
    assert len(set(transactions)) < 150


def test_of_those_that_share_a_transaction_one_that_fails_fails_alone(hire, on):
    @on("a.b", name="it")
    def handler(event):
        Effect.objects.create(event_id=event.id, subscriber="it", sequence=event.data["number"])
        if event.data["number"] % 10 == 5:
            raise ValueError

    emit_many(100)
    hire(threads=1)
    eventually(lambda: Attempt.objects.count() == 100)
    eventually(lambda: Delivery.objects.filter(lease=None).count() == 10)
    assert Effect.objects.count() == 90
    assert not Effect.objects.filter(sequence__in=range(5, 100, 10)).exists()
    assert set(Delivery.objects.values_list("attempt", flat=True)) == {1}


def test_if_the_common_commit_fails_each_gets_a_transaction_of_its_own(hire, on):
    @on("a.b", name="it")
    def handler(event):
        Seat.objects.create(number=event.data["number"] % 30)  # 30 seats: those after the 30th fail at the commit

    emit_many(33)
    hire(threads=1)
    eventually(lambda: Attempt.objects.count() == 33)
    assert Seat.objects.count() == 30
    assert Attempt.objects.filter(outcome="retried", note__contains="app_seat_once").count() == 3
    assert Delivery.objects.filter(attempt=1).count() == 3


def test_a_delivery_in_its_last_chance_is_announced_before_it_runs(hire, on):
    announced = []

    @on("a.b", name="it", atomic=False)
    def handler(event):
        announced.append(WorkerRow.objects.get().suspect)

    fact = emit_many(1)[0]
    Delivery.objects.update(rescues=4)
    suspect = Delivery.objects.get(event_id=fact.id).id
    hire()
    eventually(all_done)
    assert announced == [suspect]


def test_settlements_are_told_to_whoever_listens(hire, on, receive):
    told = receive(settled)
    on("a.b", name="it")(lambda event: None)
    facts = emit_many(20)
    hire()
    eventually(lambda: sum(len(each["ended"]) for each in told) == 20)
    ended = [end for each in told for end in each["ended"]]
    assert {end.claim.fact for end in ended} == set(facts)
    assert all(end.outcome is None and end.took_ms >= 0 for end in ended)


def test_a_listener_that_fails_is_not_felt(hire, on):
    def fail(**arguments):
        raise ValueError

    settled.connect(fail)
    try:
        on("a.b", name="it")(lambda event: None)
        emit_many(5)
        hire()
        eventually(all_done)
        emit_many(5)
        eventually(all_done)
    finally:
        settled.disconnect(fail)


def test_a_death_is_logged_and_told(hire, on, receive, caplog):
    deaths = receive(died)

    @on("a.b", name="it")
    def handler(event):
        raise duebox.Permanent("no such address")

    fact = emit_many(1)[0]
    hire()
    eventually(lambda: deaths)
    assert deaths[0]["claim"].fact == fact
    assert isinstance(deaths[0]["error"], duebox.Permanent)
    (record,) = [each for each in caplog.records if each.message.startswith("dead letter: ")]
    assert record.levelno == logging.ERROR
    assert str(fact.id) in record.message


def test_the_next_of_a_stream_runs_although_a_hook_after_the_commit_fails(hire, on):
    @on("a.b", name="it", ordered=True)
    def handler(event):
        transaction.on_commit(lambda: 1 / 0)

    emit_many(10, about=("x", 1))
    hire()
    eventually(all_done)
    assert Event.objects.count() == Attempt.objects.filter(outcome="delivered").count() == 10


def test_sys_exit_in_a_handler_does_not_end_its_thread(hire, on):
    @on("a.b", name="it", atomic=False)
    def handler(event):
        if event.data["number"] < 5:
            raise SystemExit

    emit_many(20)
    hire(threads=1)
    eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 15)
    eventually(lambda: Attempt.objects.filter(outcome="retried").count() == 5)


@pytest.mark.parametrize("atomic", [True, False])
def test_what_goes_wrong_outside_of_the_handler_waits_is_in_the_history_and_ends_as_a_dead_letter(
    hire, on, caplog, monkeypatch, atomic
):
    def fail(*arguments, **options):
        raise RuntimeError("a mistake in Duebox")

    monkeypatch.setattr("duebox.worker.run_handler.perform", fail)
    on("a.b", name="it", atomic=atomic)(lambda event: None)
    emit_many(1)
    hire()
    first = eventually(lambda: Attempt.objects.first())
    assert (first.outcome, first.number) == ("retried", 1)
    assert "RuntimeError: a mistake in Duebox" in first.note
    assert Delivery.objects.get().due_at > timezone.now() + timedelta(seconds=30)
    Delivery.objects.update(attempt=3, due_at=timezone.now())
    eventually(lambda: Delivery.objects.filter(status="dead").exists())
    assert Attempt.objects.count() == 2
    assert "delivery could not be run" in caplog.text


def test_neighbours_that_share_a_transaction_wait_too_when_something_goes_wrong_outside_of_them(hire, on, monkeypatch):
    on("a.b", name="it")(lambda event: None)
    hire(threads=1).pool.runner.durations["it"] = 0.001

    def fail(*arguments, **options):
        raise RuntimeError("a mistake in Duebox")

    monkeypatch.setattr("duebox.worker.run_handler.perform_together", fail)
    emit_many(3)
    eventually(lambda: Attempt.objects.filter(outcome="retried").count() == 3)
    assert set(Delivery.objects.values_list("attempt", "lease")) == {(1, None)}


@pytest.mark.parametrize("count", [1, 30])
def test_a_handler_that_deletes_its_own_delivery_has_failed(hire, on, count):
    """Or it would run for ever: what it did is rolled back, since it cannot be settled."""

    @on("a.b", name="it")
    def handler(event):
        if event.data["number"] == count - 1:
            Delivery.objects.filter(event_id=event.id).delete()

    emit_many(count)
    hire(threads=1)
    eventually(lambda: Attempt.objects.filter(outcome="retried").exists())
    eventually(lambda: Delivery.objects.filter(lease=None).count() == 1)
    assert Attempt.objects.filter(outcome="delivered").count() == count - 1
    assert "The handler deleted its own delivery" in Attempt.objects.get(outcome="retried").note


def test_a_failed_attempt_is_logged_with_its_traceback_and_its_event(hire, on, caplog):
    @on("a.b", name="it")
    def handler(event):
        raise ValueError("no luck")

    (fact,) = duebox.emit_many([duebox.NewEvent(type="a.b", data={"secret": "do not log me"})])
    hire()
    record = eventually(lambda: [each for each in caplog.records if each.message.startswith("attempt failed: ")])[0]
    assert record.levelno == logging.WARNING
    assert f"subscriber=it type=a.b event_id={fact.id} attempt=1 took=" in record.message
    assert "error=ValueError: no luck" in record.message
    assert record.exc_info[0] is ValueError
    assert record.exc_info[2] is not None
    assert record.event_id == str(fact.id)
    assert "do not log me" not in caplog.text


def test_a_dead_letter_is_logged_with_its_traceback(hire, on, caplog):
    @on("a.b", name="it", retry=0)
    def handler(event):
        raise ValueError("no luck")

    emit_many(1)
    hire()
    record = eventually(lambda: [each for each in caplog.records if each.message.startswith("dead letter: ")])[0]
    assert record.levelno == logging.ERROR
    assert record.exc_info[0] is ValueError


def test_each_delivery_is_a_line_at_info(hire, on, caplog):
    caplog.set_level(logging.INFO, "duebox.worker.deliveries")
    on("a.b", name="it")(lambda event: None)
    on("a.b", name="later")(lambda event: duebox.Snooze(timedelta(hours=1)))
    on("a.b", name="never")(lambda event: duebox.Discard("not needed"))
    (fact,) = emit_many(1)
    hire()

    def told():
        return sorted(each.message for each in caplog.records if each.name == "duebox.worker.deliveries")

    eventually(lambda: len(told()) == 3)
    delivered, discarded, snoozed = told()
    event = f"type=a.b event_id={fact.id} attempt=1 took="
    assert delivered.startswith(f"delivered: subscriber=it {event}")
    assert discarded.startswith(f"discarded: subscriber=never {event}")
    assert discarded.endswith(" reason=not needed")
    assert snoozed.startswith(f"snoozed: subscriber=later {event}")
    assert snoozed.endswith(" until=1:00:00")


def test_the_line_of_each_delivery_can_be_switched_off_alone(hire, on, caplog):
    caplog.set_level(logging.WARNING, "duebox.worker.deliveries")
    caplog.set_level(logging.INFO, "duebox.worker")
    on("a.b", name="it")(lambda event: None)
    emit_many(1)
    hire()
    eventually(all_done)
    assert "started: mode=worker database=default lease=" in caplog.text
    assert "delivered: " not in caplog.text


def test_a_delivery_on_its_last_chance_does_not_start_under_a_lease_that_was_lost_meanwhile(hire, on, configure):
    configure(LEASE_SECONDS=1, RESCUE_LIMIT=3)
    on("a.b", name="it")(lambda event: None)
    worker = hire(threads=1)
    before = worker.lease.id
    with worker.pool.runner.last_chance:
        with transaction.atomic():  # else the worker may claim it before it is on its last chance
            duebox.emit("a.b")
            Delivery.objects.update(rescues=2)
        eventually(lambda: Delivery.objects.filter(lease=before).exists())
        worker.lease.abandon("a test says so")
    eventually(lambda: Attempt.objects.filter(outcome="delivered").exists())
    assert Attempt.objects.get(outcome="delivered").lease != before


@pytest.fixture
def lose_answer(monkeypatch):
    """Of a function: it does its work, and what comes back the first time is the error of a lost connection."""

    def lose(where):
        *path, name = where.split(".")
        real, lost = getattr(import_module(".".join(path)), name), []

        def call(*arguments, **options):
            given = real(*arguments, **options)
            if lost:
                return given
            lost.append(given)
            broken = "server closed the connection"
            raise OperationalError(broken) from psycopg.OperationalError(broken)

        monkeypatch.setattr(where, call)
        return lost

    return lose


@pytest.mark.parametrize(
    ("atomic", "pace", "where"),
    [
        (False, 0.03, "duebox.worker.settle.settle"),
        (True, 0.03, "duebox.worker.run_handler._atomic"),
        (True, 0.001, "duebox.worker.run_handler._in_one_transaction"),
    ],
)
def test_the_next_of_a_stream_runs_soon_although_the_answer_to_a_settlement_was_lost(
    hire, on, configure, lose_answer, atomic, pace, where
):
    """The server has committed it. With this lease the next look for such streams would come after three minutes."""
    configure(LEASE_SECONDS=60)
    on("a.b", name="it", ordered=True, atomic=atomic)(lambda event: None)
    worker = hire(threads=1)
    worker.pool.runner.durations["it"] = pace
    lost = lose_answer(where)
    emit_many(3, about=("x", 1))
    eventually(all_done, 10)
    assert lost
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["delivered"] * 3
    assert worker.outcome_counts.lost == 1


def test_a_retry_is_due_in_time_although_the_answer_to_its_settlement_was_lost(hire, on, configure, lose_answer):
    configure(LEASE_SECONDS=60, POLL_SECONDS=60, LISTEN=True)
    runs = []

    @on("a.b", name="it", atomic=False, retry=duebox.Retry(first=2.0))
    def handler(event):
        runs.append(event.attempt)
        if len(runs) == 1:
            raise ValueError

    hire(threads=1)
    eventually(lambda: WorkerRow.objects.get().listening)
    lose_answer("duebox.worker.settle.settle")
    emit_many(1)
    eventually(all_done, 10)
    assert runs == [1, 2]


def test_the_next_of_a_stream_runs_soon_although_the_answer_to_a_timeout_was_lost(hire, on, configure, lose_answer):
    configure(LEASE_SECONDS=60)
    free = threading.Event()

    @on("a.b", name="it", ordered=True, atomic=False, timeout=0.1, retry=0, on_dead="skip")
    def handler(event):
        if event.data["number"] == 0:
            free.wait(60)

    hire(threads=1)
    lost = lose_answer("duebox.worker.timeouts.settle")
    emit_many(2, about=("x", 1))
    try:
        eventually(lambda: Attempt.objects.filter(outcome="delivered").exists(), 10)
    finally:
        free.set()
    assert lost
