"""A whole worker, in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

import duebox
from duebox.events.subscribers import matching
from duebox.models import Attempt, Delivery, Event
from duebox.models import Worker as WorkerRow
from duebox.worker import claimer, scheduler, worker
from duebox.worker.connections import close_connections
from duebox.worker.wakeup import Wakeup
from duebox.worker.worker import Worker
from tests.app.models import Effect
from tests.support import eventually, stored_ahead, terminate_others

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("configure")]


def emit_many(count, **data):
    return duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": n, **data}) for n in range(count))


def run(worker):
    try:
        worker.run()
    finally:
        close_connections()


def all_done():
    return not Delivery.objects.exists()


def test_everything_is_delivered_to_everybody(hire, on):
    on("a.b", name="atomic")(lambda event: Effect.objects.create(event_id=event.id, subscriber="atomic") and None)
    on("a.b", name="outside", atomic=False)(lambda event: None)
    facts = emit_many(300)
    hire()
    eventually(all_done)
    assert set(Effect.objects.values_list("event_id", flat=True)) == {fact.id for fact in facts}
    assert Effect.objects.count() == 300
    assert Attempt.objects.filter(outcome="delivered").count() == 600


def test_a_worker_sleeps_until_the_next_due_instant(hire, on, configure):
    configure(POLL_SECONDS=60)
    moments = []

    @on("a.b", name="it", atomic=False)
    def handler(event):
        moments.append(time.monotonic())
        return duebox.Snooze(timedelta(milliseconds=300)) if len(moments) == 1 else None

    emit_many(1)
    hire()
    eventually(lambda: len(moments) == 2)
    # The delay counts from the settlement, which may be a batch later than the call.
    assert 0.3 <= moments[1] - moments[0] < 5


def test_what_was_claimed_and_not_started_is_given_back_at_the_stop_and_the_running_one_finishes(hire, on, configure):
    configure(THREADS=1)
    started, gate = threading.Event(), threading.Event()

    @on("a.b", name="it", atomic=False)
    def handler(event):
        if event.data.get("block"):
            started.set()
            gate.wait(10)

    emit_many(3)
    worker = hire()
    eventually(all_done)  # by now it knows the handler as quick, and claims many at once
    emit_many(1, block=True)
    assert started.wait(5)
    emit_many(5)
    eventually(lambda: Delivery.objects.filter(lease__isnull=False).count() > 1)
    worker.stop()
    eventually(lambda: Delivery.objects.filter(lease=None).count() == 5)
    gate.set()
    eventually(lambda: Delivery.objects.count() == 5)
    eventually(lambda: not WorkerRow.objects.exists())
    assert set(Delivery.objects.values_list("attempt", "rescues")) == {(0, 0)}
    assert Attempt.objects.exclude(outcome="delivered").count() == 0


def test_what_has_run_does_not_wait_for_a_slow_one_to_be_settled(hire, on, configure):
    configure(THREADS=1)
    gate = threading.Event()
    on("a.b", name="quick", atomic=False)(lambda event: None)
    on("a.c", name="slow")(lambda event: gate.wait(10))
    emit_many(3)
    hire()
    eventually(all_done)
    duebox.emit_many([*(duebox.NewEvent(type="a.b") for _ in range(5)), duebox.NewEvent(type="a.c")])
    eventually(lambda: Attempt.objects.filter(subscriber="quick").count() == 8, 5)
    assert Delivery.objects.get().subscriber == "slow"
    gate.set()


def test_what_runs_beyond_the_deadline_is_given_back_and_burns_no_attempt(hire, on, configure):
    configure(SHUTDOWN_SECONDS=0.2, THREADS=1)
    started, gate = threading.Event(), threading.Event()

    @on("a.b", name="it")
    def handler(event):
        Effect.objects.create(event_id=event.id, subscriber="it")
        started.set()
        gate.wait(10)

    emit_many(1)
    worker = hire()
    assert started.wait(5)
    worker.stop()
    row = eventually(lambda: Delivery.objects.filter(lease=None).first())
    assert (row.attempt, row.rescues, row.status) == (0, 0, "pending")
    gate.set()
    eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("duebox-hand")])
    assert Delivery.objects.filter(lease=None, attempt=0).exists()
    assert not Effect.objects.exists()
    assert not Attempt.objects.exists()


def test_only_the_subscribers_asked_for_are_served(hire, on):
    for name in ("mail.welcome", "mail.bye", "report"):
        on("a.b", name=name)(lambda event, name=name: None)
    emit_many(4)
    hire(only=("mail.*",))
    eventually(lambda: Delivery.objects.count() == 4)
    assert set(Delivery.objects.values_list("subscriber", "lease")) == {("report", None)}


def test_aliases_are_served_with_their_subscriber(on):
    on("a.b", name="mail.welcome", aliases=["old.mail"])(lambda event: None)
    assert set(matching(("mail.*",))) == {"mail.welcome", "old.mail"}
    assert matching(("nobody",)) == {}


def test_deliveries_of_unknown_handlers_are_left_for_newer_code(hire, on):
    on("a.b", name="it")(lambda event: None)
    unknown = Delivery.objects.create(event_id=uuid4(), subscriber="newer.code", due_at=timezone.now())
    before = Delivery.objects.filter(id=unknown.id).values().get()
    emit_many(3)
    hire()
    eventually(lambda: Delivery.objects.count() == 1)
    assert Delivery.objects.filter(id=unknown.id).values().get() == before


def test_a_delivery_whose_event_is_gone_is_discarded_and_the_others_are_delivered(hire, on):
    on("a.b", name="it")(lambda event: event.data["number"])
    gone = emit_many(1)[0]
    Event.objects.filter(id=gone.id).delete()
    emit_many(5)
    hire()
    eventually(all_done)
    told = Attempt.objects.get(event_id=gone.id)
    assert told.outcome == "discarded"
    assert "event" in told.note
    assert Attempt.objects.filter(outcome="delivered").count() == 5


class Broken(duebox.Retry):
    def outcome(self, error, attempt):
        raise RuntimeError("the policy itself is broken")


@pytest.mark.parametrize("atomic", [True, False])
def test_a_delivery_that_cannot_even_fail_does_not_stop_the_others(hire, on, caplog, atomic):
    @on("a.b", name="bad", atomic=atomic, retry=Broken())
    def bad(event):
        raise ValueError

    on("a.c", name="good", atomic=atomic)(lambda event: None)
    emit_many(1)
    duebox.emit_many([duebox.NewEvent(type="a.c")] * 5)
    hire()
    eventually(lambda: Attempt.objects.filter(subscriber="good", outcome="delivered").count() == 5)
    eventually(lambda: Attempt.objects.filter(subscriber="bad").exists())
    assert Attempt.objects.get(subscriber="bad").outcome == "retried"
    assert Delivery.objects.get().attempt == 1
    assert "retry policy failed, the default is used: subscriber=bad" in caplog.text


def test_ordered_deliveries_keep_their_order_with_several_threads(hire, on):
    @on("a.b", name="it", ordered=True)
    def handler(event):
        Effect.objects.create(event_id=event.id, subscriber=event.about[1], sequence=event.data["number"])

    duebox.emit_many(duebox.NewEvent(type="a.b", data={"number": n}, about=("x", n % 4)) for n in range(80))
    hire(threads=3)
    eventually(all_done, 15)
    for aggregate in "0123":
        numbers = list(Effect.objects.filter(subscriber=aggregate).order_by("id").values_list("sequence", flat=True))
        assert numbers == list(range(int(aggregate), 80, 4))


def test_broken_connections_are_survived(hire, on, elsewhere, caplog):
    on("a.b", name="it")(lambda event: Effect.objects.create(event_id=event.id, subscriber="it") and None)
    worker = hire()
    emit_many(50)
    eventually(all_done)
    assert terminate_others(elsewhere) >= 2
    emit_many(50)
    eventually(all_done, 15)
    assert Effect.objects.count() == 100
    eventually(lambda: worker.outcome_counts.delivered == 100)
    eventually(lambda: "database error, next try in 1 s" in caplog.text)


def test_a_delivery_in_its_last_chance_survives_a_broken_connection(hire, on, elsewhere, configure):
    configure(LEASE_SECONDS=1)
    on("a.b", name="it")(lambda event: None)
    hire(threads=1)
    emit_many(3)
    eventually(all_done)
    terminate_others(elsewhere)
    fact = duebox.emit("a.b")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE duebox_delivery SET rescues = 4 WHERE event_id = %s", [fact.id])
    eventually(all_done, 15)
    emit_many(3)
    eventually(all_done, 15)


def test_once_ends_when_nothing_is_due_any_more(on):
    @on("a.b", name="it")
    def handler(event):
        if event.data["number"] < 3:
            duebox.emit("a.b", {"number": event.data["number"] + 1})

    on("a.c", name="later")(lambda event: duebox.Snooze(timedelta(hours=1)))
    emit_many(1)
    duebox.emit("a.c")
    worker = Worker(until_idle=True)
    worker.run()
    assert worker.outcome_counts.as_dict() == {
        "delivered": 4, "snoozed": 1, "discarded": 0, "expired": 0, "retried": 0, "dead": 0, "lost": 0,
    }  # fmt: skip
    assert str(worker.outcome_counts) == "delivered 4, snoozed 1"
    assert Delivery.objects.get().subscriber == "later"
    assert not WorkerRow.objects.exists()


def test_once_ends_although_there_is_nobody_to_serve():
    worker = Worker(until_idle=True, only=("nobody",))
    done = threading.Thread(target=run, args=[worker])
    done.start()
    done.join(20)
    ended = not done.is_alive()
    worker.stop()
    done.join(5)
    assert ended


def test_a_worker_says_when_it_stopped_and_what_it_did(hire, on, caplog):
    caplog.set_level(logging.INFO, logger="duebox.worker")
    on("a.b", name="it")(lambda event: None)
    emit_many(2)
    worker = hire()
    eventually(all_done)
    worker.stop()
    eventually(lambda: "stopped: delivered 2" in caplog.text)


# What a round is for


@pytest.fixture
def sent(monkeypatch):
    """How often a worker's loop has sent each of its statements."""
    found = Counter()
    for module, name in ((claimer, "claim"), (scheduler, "fire_due"), (worker, "seconds_to_next")):
        monkeypatch.setattr(module, name, _counted(name, getattr(module, name), found))
    return found


def _counted(name, action, found):
    def counted(*args, **options):
        found[name] += 1
        return action(*args, **options)

    return counted


def test_one_shots_that_were_prepared_need_neither_a_claim_nor_another_look(hire, on, configure, sent):
    configure(POLL_SECONDS=60, LISTEN=True)
    heard = []
    on("bell.rung", name="ear", atomic=False)(lambda event: heard.append(event.data["number"]))
    worker = hire()
    eventually(lambda: WorkerRow.objects.filter(listening=True).exists())

    def store(start):
        for number in range(40):
            at = start + timedelta(milliseconds=30 * number)
            duebox.schedule("bell.rung", {"number": number}, at=at, key=f"it:{number}")

    stored_ahead(store)
    eventually(lambda: worker.scheduler.prepared.seconds() is not None)
    eventually(lambda: heard)
    sent.clear()
    eventually(lambda: len(heard) == 40)
    assert sent.total() < 20


def test_a_worker_is_not_woken_by_what_its_own_loop_has_sent(hire):
    worker = hire()
    session = eventually(lambda: worker.wakeup.loop_session)
    wakeup = Wakeup()
    wakeup.loop_session = session
    wakeup.notified("", session)
    assert not wakeup.wait(0)
    wakeup.notified("", session + 1)
    assert wakeup.wait(0)


def test_a_thread_that_is_free_calls_only_if_there_was_no_room_before():
    wakeup = Wakeup()
    wakeup.thread_is_free()
    assert not wakeup.wait(0)
    wakeup.wants_room = True
    wakeup.thread_is_free()
    assert wakeup.wait(0)


def test_a_run_that_ends_for_want_of_a_lease_leaves_no_thread_behind(monkeypatch, tune):
    def refuse():
        raise OperationalError("no database")

    tune(retry_waits=())
    worker = Worker(until_idle=True)
    monkeypatch.setattr(worker.lease, "take", refuse)
    before = set(threading.enumerate())  # those of earlier tests end in their own time
    with pytest.raises(OperationalError):
        worker.run()
    eventually(lambda: "duebox-watchdog" not in {thread.name for thread in set(threading.enumerate()) - before})
