"""The end of a worker: nothing that has run runs again, nothing that runs is held on to, nothing is left behind."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import OperationalError, connection, transaction

import duebox
from duebox.models import Attempt, Delivery, Event
from duebox.models import Worker as WorkerRow
from duebox.worker import settle as settling
from duebox.worker.connections import close_connections
from duebox.worker.supervisor import deliver_in_time
from duebox.worker.worker import Worker
from tests.app.models import Effect
from tests.support import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def emit_many(count, type="a.b"):
    return duebox.emit_many(duebox.NewEvent(type=type, data={"number": n}) for n in range(count))


def all_done():
    return not Delivery.objects.exists()


def nobody_works():
    return not WorkerRow.objects.exists()


def open_transactions():
    """Of others than this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND state = 'idle in transaction'"
        )
        return cursor.fetchone()[0]


def run_in_a_thread(worker):
    raised = []

    def work():
        try:
            worker.run()
        except Exception as error:
            raised.append(error)
        finally:
            close_connections()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    return raised


def test_what_has_run_is_settled_when_the_end_of_work_comes_right_behind_it(hire, on, configure):
    configure(THREADS=1)
    effects = []

    @on("a.b", name="it", atomic=False)
    def handler(event):
        effects.append(event.id)
        worker.pool.inbox.put_end()

    worker = hire()
    emit_many(1)
    eventually(lambda: effects)
    worker.stop()
    eventually(lambda: not WorkerRow.objects.exists())
    assert not Delivery.objects.exists()
    assert Attempt.objects.get().outcome == "delivered"


def test_what_has_run_is_settled_at_the_deadline_though_what_came_after_it_hangs(hire, on, configure):
    configure(SHUTDOWN_SECONDS=0.2, THREADS=1)
    started, gate = threading.Event(), threading.Event()

    @on("a.b", name="it", atomic=False)
    def handler(event):
        if event.data["number"] == 9:
            started.set()
            gate.wait(10)

    emit_many(3)
    worker = hire()
    eventually(all_done)  # by now it knows the handler as quick, and settles many at once
    emit_many(10)
    assert started.wait(5)
    worker.stop()
    eventually(lambda: not WorkerRow.objects.exists())
    assert list(Event.objects.filter(id__in=Delivery.objects.values("event_id")).values_list("data__number")) == [(9,)]
    assert Attempt.objects.filter(outcome="delivered").count() == 12
    gate.set()


def test_a_settlement_that_is_under_way_at_the_deadline_is_waited_for(hire, on, configure, monkeypatch):
    configure(SHUTDOWN_SECONDS=0.2, THREADS=1)
    on("a.b", name="it", atomic=False)(lambda event: None)
    real, hiccup = settling.settle, threading.Event()

    def settle(*given, **options):
        if not hiccup.is_set():
            hiccup.set()
            raise OperationalError("server closed the connection")
        return real(*given, **options)

    monkeypatch.setattr(settling, "settle", settle)
    emit_many(1)
    worker = hire()
    assert hiccup.wait(10)
    worker.stop()
    eventually(nobody_works)
    assert all_done()
    assert worker.outcome_counts.lost == 0


def test_what_was_taken_ahead_and_given_back_does_not_run_here_any_more(hire, on, configure):
    configure(SHUTDOWN_SECONDS=0.2, THREADS=1)
    hooked, gate, ran = threading.Event(), threading.Event(), []

    def hook():
        hooked.set()
        gate.wait(10)

    @on("a.b", name="quick")
    def quick(event):
        if event.data["number"] == 0:
            transaction.on_commit(hook)

    on("a.c", name="outside", atomic=False)(lambda event: ran.append(event.id))
    worker = hire()
    worker.pool.runner.durations["quick"] = 0.001  # so that it looks for others that could share its transaction
    duebox.emit_many([duebox.NewEvent(type="a.b", data={"number": 0}), duebox.NewEvent(type="a.c")])
    assert hooked.wait(10)
    worker.stop()
    eventually(nobody_works)
    run_in_a_thread(Worker(until_idle=True))
    gate.set()
    eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("duebox-hand")])
    assert len(ran) == 1


def test_a_transaction_that_a_handler_left_open_is_no_delivery_at_the_deadline_either(hire, on, configure):
    configure(SHUTDOWN_SECONDS=0.2, THREADS=1)
    started, gate = threading.Event(), threading.Event()

    @on("a.b", name="it", atomic=False)
    def handler(event):
        if event.data["number"] == 3:
            transaction.set_autocommit(False)
            Effect.objects.create(event_id=event.id, subscriber="it")
        if event.data["number"] == 4:
            started.set()
            gate.wait(10)

    emit_many(3)
    worker = hire()
    eventually(all_done)
    facts = emit_many(5)
    assert started.wait(10)
    worker.stop()
    eventually(nobody_works)
    gate.set()
    assert Attempt.objects.get(event_id=facts[3].id).outcome == "retried"


def test_the_heart_stops_although_the_end_was_interrupted(configure, monkeypatch):
    class TimeIsOver(Exception):
        pass

    def finish(*given, **options):
        raise TimeIsOver

    worker = Worker(until_idle=True)
    monkeypatch.setattr(worker.pool, "finish", finish)
    [raised] = run_in_a_thread(worker)
    assert isinstance(raised, TimeIsOver)
    assert nobody_works()
    assert not worker.lease._thread.is_alive()
    worker.pool.inbox.put_end()
    worker.pool.inbox.put_end()


def test_threads_that_hang_are_waited_for_together_and_in_the_time_to_shut_down(hire, monkeypatch, tune):
    tune(stop_background_seconds=2.0)
    worker, gate, deadlines = hire(), threading.Event(), []
    eventually(worker.retention.thread.is_alive)  # the last of them to start
    real = worker._shutdown.shut_down
    monkeypatch.setattr(worker._shutdown, "shut_down", lambda deadline: (deadlines.append(deadline), real(deadline)))
    for each in (worker.rollups, worker.retention, worker.row_changes):
        each.thread = threading.Thread(target=gate.wait, args=[20], daemon=True)
        each.thread.start()
    began = time.monotonic()
    worker.stop()
    eventually(lambda: deadlines)
    assert time.monotonic() - began < 5.5  # one after the other it would be 6
    assert deadlines[0] == pytest.approx(began + worker._shutdown_seconds, abs=1.5)
    eventually(nobody_works)
    gate.set()


class TestWhereTheProcessLivesOn:
    def test_what_cannot_be_undone_ends_in_its_own_time_and_runs_nowhere_else(self, on, configure):
        configure(THREADS=1)
        gate, starts = threading.Event(), []

        @on("a.b", name="it", atomic=False)
        def handler(event):
            starts.append(event.id)
            gate.wait(20)

        emit_many(1)
        for _ in range(3):
            assert deliver_in_time(0.5)["delivered"] == 0
        gate.set()
        eventually(all_done)
        eventually(nobody_works)
        assert len(starts) == 1
        assert Attempt.objects.get().outcome == "delivered"

    def test_what_can_be_undone_is_undone_at_once_and_given_back(self, on, configure):
        configure(THREADS=1)
        gate = threading.Event()

        @on("a.b", name="it")
        def handler(event):
            Effect.objects.create(event_id=event.id, subscriber="it")
            gate.wait(20)

        emit_many(1)
        deliver_in_time(0.5)
        eventually(lambda: not open_transactions())
        left = Delivery.objects.get()
        assert (left.lease, left.attempt, left.rescues) == (None, 0, 0)
        assert nobody_works()
        gate.set()
        eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("duebox-hand")])
        left.refresh_from_db()
        assert (left.lease, left.attempt, left.rescues) == (None, 0, 0)
        assert not Effect.objects.exists()
