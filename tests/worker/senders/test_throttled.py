"""A destination that has too much to do says so, and is left in peace."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

import duebox
from duebox.exceptions import Throttled, Undelivered
from duebox.models import Attempt, Delivery, DestinationState
from duebox.store import destinations as store
from duebox.testing import drain
from duebox.worker.senders import sender
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def emit(count=1, **data):
    return duebox.emit_many([duebox.NewEvent(type="letter.sent", data={"number": n, **data}) for n in range(count)])


def history(outcome):
    return Attempt.objects.filter(outcome=outcome).count()


def test_it_costs_no_attempts_and_no_dead_letters(destinations, hire):
    boxes = destinations(backend="Single", post={})
    answers = itertools.chain([Throttled("too many")] * 8, itertools.repeat(None))
    boxes["post"].answers = lambda fact: next(answers)
    emit()
    hire()
    eventually(lambda: history("delivered") == 1)
    assert history("retried") == 8
    assert history("dead") == 0
    assert set(Attempt.objects.values_list("number", flat=True)) == {1}


def test_a_wish_for_peace_that_comes_while_an_earlier_answer_is_judged_is_not_forgotten(
    destinations, hire, monkeypatch
):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 1})
    calls, judging, real = itertools.count(1), threading.Event(), sender.judge

    def answer(fact):
        if next(calls) != 3:
            return None
        judging.wait(10)
        return Throttled("too many", seconds=30.0)

    def judge(using, queue, ended):
        if len(boxes["post"].calls) > 1:  # the first goes alone; after it many wait here
            judging.set()
            eventually(lambda: queue.tripped)
        return real(using, queue, ended)

    boxes["post"].answers = answer
    monkeypatch.setattr(sender, "judge", judge)
    emit(10)
    hire()
    eventually(lambda: DestinationState.objects.filter(name="to:post", open_until__isnull=False).exists())
    assert len(boxes["post"].calls) == 3


def test_nothing_more_goes_out_while_it_wants_peace_though_it_took_others(destinations, hire):
    boxes = destinations(backend="Single", post={"CONCURRENCY": 4})
    calls = itertools.count(1)

    def answer(fact):
        time.sleep(0.01)
        return Throttled("too many", seconds=2.0, status=429) if next(calls) % 10 == 0 else None

    boxes["post"].answers = answer
    emit(60)
    hire()
    eventually(lambda: DestinationState.objects.filter(name="to:post", open_until__isnull=False).exists())
    eventually(lambda: history("retried") >= 1)
    # Nine were taken, the tenth was not, and a few may have been on their way.
    time.sleep(0.2)
    sent = len(boxes["post"].calls)
    assert sent <= 18
    time.sleep(0.5)
    assert len(boxes["post"].calls) == sent
    boxes["post"].answers = None
    eventually(lambda: history("delivered") == 60)


def test_what_is_paused_as_a_whole_is_paused_in_all_its_parts(destinations, hire):
    boxes = destinations(parts={"KIND": "Parts"})
    store.pause("default", "to:parts", "maintenance")
    emit(3, letters=["a", "b"])
    hire()
    eventually(lambda: Delivery.objects.filter(subscriber__startswith="to:").count() == 6)
    assert store.unavailable("default", ["to:parts/a", "to:parts/b"]) == {"to:parts/a", "to:parts/b"}
    time.sleep(0.3)
    assert Delivery.objects.filter(subscriber__startswith="to:").count() == 6
    assert store.resume("default", "to:parts")
    eventually(lambda: not Delivery.objects.exists())
    assert boxes


def test_a_drain_leaves_alone_what_is_paused_as_a_whole(destinations):
    destinations(parts={"KIND": "Parts"})
    store.pause("default", "to:parts", "maintenance")
    emit(1, letters=["a"])
    drain()
    assert Delivery.objects.filter(subscriber="to:parts/a").exists()


def test_failures_with_a_long_gap_between_them_are_not_one_failure(db):
    first = store.record_failure("default", "to:post", "no answer", gap=3600)
    assert store.record_failure("default", "to:post", "no answer", gap=3600) == first
    DestinationState.objects.update(failing_since="2026-01-01T00:00:00Z", failed_at="2026-01-02T00:00:00Z")
    again = store.record_failure("default", "to:post", "no answer", gap=3600)
    assert again > first
    assert store.record_failure("default", "to:post", "no answer", gap=3600) == again


def test_one_that_fails_after_its_peace_is_tried_again_soon_also_without_a_breaker(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": False})
    answers = iter([Throttled("too many", seconds=0.3), Undelivered("out of order")])
    boxes["post"].answers = lambda fact: next(answers, None)
    emit()
    hire()
    eventually(lambda: history("delivered") == 1, seconds=20)
