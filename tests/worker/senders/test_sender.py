"""A worker with destinations: claimed by destination, carried by threads of their own, settled one by one."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError

import duebox
from duebox.events.outcomes import Delivered, Discard, Snooze
from duebox.exceptions import Permanent, Undelivered
from duebox.models import Attempt, Delivery, DestinationState
from duebox.models import Worker as Lease
from duebox.store import leases
from duebox.worker import settle as settling
from duebox.worker.supervisor import deliver_in_time
from duebox.worker.worker import Worker
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def history(outcome):
    return Attempt.objects.filter(outcome=outcome).count()


def emit(count=1, type="order.paid", **options):
    return duebox.emit_many([duebox.NewEvent(type=type, data={"number": n}, **options) for n in range(count)])


def test_what_its_routes_take_is_delivered(destinations, hire):
    boxes = destinations(routes=[{"match": "order.*", "to": "post"}])
    hire()
    [paid] = emit()
    emit(type="member.invited")
    eventually(lambda: history("delivered"))
    assert [fact.id for fact in boxes["post"].facts] == [paid.id]
    assert not Delivery.objects.exists()
    assert Attempt.objects.get().subscriber == "to:post"


def test_events_go_out_in_full_batches(destinations, hire):
    boxes = destinations()
    emit(100)
    hire()
    eventually(lambda: history("delivered") == 100)
    assert len(boxes["post"].calls) <= 12
    assert max(map(len, boxes["post"].calls)) == 10


def test_each_event_of_a_batch_has_its_own_fate(destinations, hire):
    boxes = destinations()
    answers = {
        0: None,
        1: Delivered("thanks", status=202),
        2: Discard("no longer wanted"),
        3: Permanent("never"),
        4: Undelivered("not now", status=500),
        5: Snooze(timedelta(hours=1)),
    }
    boxes["post"].answers = lambda fact: answers[fact.data["number"]]
    emit(6)
    hire()
    eventually(lambda: history("dead") == 2)
    found = list(Attempt.objects.values_list("outcome", "status", "note"))
    assert ("delivered", 202, "thanks") in found
    assert ("discarded", None, "no longer wanted") in found
    assert ("dead", 500, "not now") in found
    assert history("retried") == 3
    assert history("snoozed") == 1


def test_an_error_that_is_raised_counts_for_the_whole_batch(destinations, hire):
    boxes = destinations()
    boxes["post"].answers = SystemExit(3)
    emit(5)
    hire()
    eventually(lambda: history("dead") == 5)
    assert Delivery.objects.dead().count() == 5


def test_a_slow_destination_keeps_nobody_waiting(destinations, hire):
    boxes = destinations(backend="Single", slow={}, quick={})
    boxes["slow"].answers = 30.0
    emit(50)
    hire()
    eventually(lambda: len(boxes["quick"].calls) == 50)
    assert len(boxes["slow"].calls) <= 4
    boxes["slow"].hurry.set()


def test_no_more_calls_than_allowed_run_at_the_same_time(destinations, hire):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 2})
    boxes["post"].answers = 0.02
    emit(30)
    hire()
    eventually(lambda: history("delivered") == 30)
    assert boxes["post"].most_at_once == 2


def test_a_worker_holds_no_more_of_a_slow_one_than_it_carries(destinations, hire):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 2})
    boxes["post"].answers = 0.4
    emit(40)
    hire()
    eventually(lambda: len(boxes["post"].calls) >= 4)
    assert Delivery.objects.filter(lease__isnull=False).count() <= 4


def test_events_of_one_aggregate_keep_their_order(destinations, hire):
    boxes = destinations(post={"ORDERED": True})
    failed = set()

    def once(fact):
        if fact.data["number"] % 3 == 0 and fact.id not in failed:
            failed.add(fact.id)
            return Undelivered("not now")
        return None

    boxes["post"].answers = once
    for about in ("1", "2", "3"):
        emit(10, about=("order", about))
    hire()
    eventually(lambda: history("delivered") == 30)
    taken = Attempt.objects.filter(outcome="delivered").order_by("id").values_list("event_id", flat=True)
    events = {fact.id: fact for fact in boxes["post"].facts}
    for about in ("1", "2", "3"):
        numbers = [events[each].data["number"] for each in taken if events[each].about == ("order", about)]
        assert numbers == list(range(10))


def test_a_destination_may_expand_into_parts(destinations, hire):
    boxes = destinations(routes=[], backend="Parts")
    duebox.emit("letter.sent", {"letters": ["a", "b"]})
    hire()
    eventually(lambda: history("delivered") == 3)
    assert len(boxes["post/a"].facts) == len(boxes["post/b"].facts) == 1
    names = set(Attempt.objects.values_list("subscriber", flat=True))
    assert names == {"fan-out:post", "to:post/a", "to:post/b"}


def test_once_ends_when_everything_is_out(destinations):
    boxes = destinations(backend="Single")
    boxes["post"].answers = 0.01
    emit(40)
    worker = Worker(until_idle=True)
    worker.run()
    assert len(boxes["post"].calls) == 40
    assert worker.outcome_counts.delivered == 40


def test_a_worker_that_stops_lets_end_what_is_on_its_way_and_gives_back_the_rest(destinations, hire):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 2})
    boxes["post"].answers = 0.5
    emit(10)
    worker = hire()
    eventually(lambda: len(boxes["post"].calls) >= 3)
    worker.stop()
    eventually(lambda: not Delivery.objects.filter(lease__isnull=False).exists())
    eventually(lambda: history("delivered") == len(boxes["post"].calls))
    assert Delivery.objects.filter(attempt=0).count() == 10 - len(boxes["post"].calls)


def test_what_does_not_end_in_time_is_given_back_without_burning_an_attempt(destinations, hire):
    boxes = destinations(backend="Single")
    release = threading.Event()
    boxes["post"].answers = lambda fact: release.wait(20) and None
    emit(1)
    worker = hire()
    worker._shutdown_seconds = 0.3
    eventually(lambda: boxes["post"].calls)
    worker.stop()
    eventually(lambda: not Lease.objects.exists())
    left = Delivery.objects.get()
    assert (left.lease, left.attempt) == (None, 0)
    release.set()


def test_where_the_process_lives_on_what_is_on_its_way_arrives_once(destinations):
    boxes = destinations(backend="Single")
    release = threading.Event()
    boxes["post"].answers = lambda fact: release.wait(20) and None
    emit(1)
    for _ in range(3):
        deliver_in_time(0.5)
    assert len(boxes["post"].calls) == 1
    release.set()
    eventually(lambda: not Lease.objects.exists())
    assert not Delivery.objects.exists()
    assert len(boxes["post"].calls) == 1


def test_one_on_its_last_chance_is_sent_once_though_the_database_fails_right_after_it(destinations, hire, monkeypatch):
    boxes = destinations()
    emit(1)
    Delivery.objects.update(rescues=4)
    real, failed = leases.announce_suspect, []

    def announce(using, lease, delivery):
        if delivery is None and not failed:
            failed.append(1)
            raise OperationalError("server closed the connection unexpectedly")
        real(using, lease, delivery)

    monkeypatch.setattr(leases, "announce_suspect", announce)
    hire()
    eventually(lambda: not Delivery.objects.exists())
    assert failed
    assert len(boxes["post"].facts) == 1


def test_a_destination_that_cannot_be_made_keeps_its_events(destinations, hire, caplog):
    boxes = destinations(a={}, b={})
    from duebox.destinations.registry import subscriptions

    broken = subscriptions()["a"]
    broken.made.clear()
    object.__setattr__(broken, "entry", {"BACKEND": "tests.app.outside.Nowhere"})
    emit(1)
    hire()
    eventually(lambda: boxes["b"].calls)
    eventually(lambda: "its events wait" in caplog.text)
    eventually(lambda: history("delivered") == 1)
    left = Delivery.objects.get()
    assert (left.subscriber, left.attempt, left.lease) == ("to:a", 0, None)


def test_handlers_and_destinations_do_not_touch_each_other(destinations, hire, on):
    boxes = destinations(backend="Single")
    boxes["post"].answers = 30.0
    ran = []
    on("order.*", name="inside")(lambda event: ran.append(event.id))
    hire()
    emit(20)
    eventually(lambda: len(ran) == 20)
    boxes["post"].hurry.set()


def test_an_event_reaches_a_sleeping_worker_at_once(destinations, hire):
    boxes = destinations(routes=[{"match": "order.*", "to": "post"}])
    worker = hire(poll=60.0)
    eventually(lambda: worker.listener.mode == "listen")
    time.sleep(1.5)
    emit()
    eventually(lambda: boxes["post"].calls, 20)


def test_the_state_of_a_destination_is_written_only_when_it_changes(destinations, hire):
    destinations()
    emit(20)
    hire()
    eventually(lambda: history("delivered") == 20)
    assert not DestinationState.objects.exists()


def test_the_next_event_of_an_aggregate_is_sent_soon_although_the_answer_to_a_settlement_was_lost(
    destinations, hire, monkeypatch, settings
):
    """The server has committed it. With this lease the next look for such streams would come after three minutes."""
    boxes = destinations(post={"ORDERED": True})
    settings.DUEBOX = {**settings.DUEBOX, "LEASE_SECONDS": 60}
    real, failed = settling.settle, []

    def settle(*given):
        answer = real(*given)
        if not failed:
            failed.append(1)
            raise OperationalError("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(settling, "settle", settle)
    hire()
    emit(3, about=("order", 1))
    eventually(lambda: not Delivery.objects.exists(), 10)
    assert failed
    assert len(boxes["post"].facts) == 3
