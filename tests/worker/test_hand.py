"""A handler thread: what it runs together, what alone, and what it tells."""

from __future__ import annotations

import logging

import pytest
from django.db import connection, transaction

import duebox
from duebox.models import Attempt, Delivery, Event
from duebox.models import Worker as WorkerRow
from duebox.signals import died, settled
from tests.app.models import Effect, Seat
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def emit_many(count, **options):
    return duebox.emit_many(duebox.New(type="a.b", data={"number": n}, **options) for n in range(count))


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
