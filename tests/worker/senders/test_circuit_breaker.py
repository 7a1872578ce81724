"""Storms: rates, breakers, pauses. What a destination cannot take waits, and burns no attempt."""

from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime

import pytest

import duebox
from duebox.exceptions import Permanent, Throttled, TooLarge, Undelivered
from duebox.models import Attempt, Delivery, DestinationState
from duebox.store import destinations as store
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)
BREAKER = {"calls": 5, "share": 0.5, "window": 60.0, "pause": 0.5, "longest": 60.0}


def emit(count=1, type="order.paid"):
    return duebox.emit_many([duebox.NewEvent(type=type, data={"number": n}) for n in range(count)])


def history(outcome):
    return Attempt.objects.filter(outcome=outcome).count()


def state():
    return DestinationState.objects.filter(name="to:post").first()


def test_a_breaker_opens_when_too_much_fails_and_nothing_is_tried_while_it_is_open(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": {**BREAKER, "pause": 60.0}, "CONCURRENCY": 1})
    boxes["post"].answers = Undelivered("out of order")
    emit(30)
    hire()
    found = eventually(lambda: (g := state()) and g.open_until and g)
    tried = len(boxes["post"].calls)
    assert found.opened == 1
    assert found.error == "out of order"
    assert tried < 15
    time.sleep(0.5)
    assert len(boxes["post"].calls) <= tried + 1
    burned = sum(Delivery.objects.values_list("attempt", flat=True))
    assert burned == history("retried") == len(boxes["post"].calls)
    assert not Delivery.objects.filter(lease__isnull=False).exists()


def test_after_a_pause_one_event_is_tried_and_if_that_is_taken_the_rest_follows(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": BREAKER})
    boxes["post"].answers = Undelivered("out of order")
    emit(30)
    hire()
    eventually(lambda: (g := state()) and g.open_until)
    boxes["post"].answers = None
    eventually(lambda: history("delivered") == 30)
    healed = eventually(lambda: (g := state()) and g.open_until is None and g)
    assert (healed.opened, healed.failing_since, healed.error) == (0, None, "")


def test_a_probe_that_fails_doubles_the_pause(destinations, hire):
    many = {"limit": 50, "first": 0.01, "factor": 1.0}
    boxes = destinations(backend="Single", post={"BREAKER": {**BREAKER, "pause": 0.2}, "RETRY": many})
    boxes["post"].answers = Undelivered("out of order")
    emit(30)
    hire()
    eventually(lambda: (g := state()) and g.opened >= 1)
    eventually(lambda: not boxes["post"].at_once)
    before = len(boxes["post"].calls)
    eventually(lambda: state().opened >= 4)
    calls = boxes["post"].at[before:]
    pauses = [later - sooner for sooner, later in itertools.pairwise(calls)]
    assert len(calls) <= 5
    assert all(later > 1.3 * sooner for sooner, later in itertools.pairwise(pauses))


class HalfOpen:
    """A destination whose breaker has opened while five calls were on their way, and which is now tried with one
    event: all six calls have begun, and none has ended."""

    def __init__(self, destinations, hire):
        self.box = destinations(backend="Single", post={"BREAKER": BREAKER, "CONCURRENCY": 8})["post"]
        self.works = True
        self.answer_of = {"early": None, "probe": None}
        self.probed = threading.Event()
        self.may_end = {name: threading.Event() for name in self.answer_of}
        self.box.answers = self._answer
        emit()  # one call at a time until the first answer
        hire()
        eventually(lambda: history("delivered") == 1)
        emit(5, "order.early")
        eventually(lambda: self.box.at_once == 5)
        self.works = False
        emit(5)
        eventually(lambda: (g := state()) and g.open_until)
        eventually(lambda: self.box.at_once == 5)
        self.works = True
        self.box.answers = lambda fact: self._answer(fact, else_="" if self.probed.is_set() else "probe")
        assert self.probed.wait(20)

    def end(self, name, answer):
        self.answer_of[name] = answer
        self.may_end[name].set()

    def _answer(self, fact, else_=""):
        name = "early" if fact.type == "order.early" and fact.attempt == 1 else else_
        if not name:
            return None if self.works else Undelivered("out of order")
        if name == "probe":
            self.probed.set()
        assert self.may_end[name].wait(20)
        return self.answer_of[name]


@pytest.fixture
def half_open(destinations, hire):
    made = HalfOpen(destinations, hire)
    yield made
    for each in made.may_end.values():
        each.set()


def test_late_good_news_of_a_call_that_began_before_the_pause_is_no_answer_of_the_probe(half_open):
    half_open.end("early", None)
    eventually(lambda: history("delivered") == 6)
    calls = len(half_open.box.calls)
    time.sleep(0.3)
    assert state().open_until is not None
    assert len(half_open.box.calls) == calls
    half_open.end("probe", Undelivered("still out of order"))
    eventually(lambda: state().opened == 2)


def test_late_bad_news_of_a_call_that_began_before_the_pause_is_no_answer_of_the_probe(half_open):
    retried = history("retried")
    half_open.end("early", Undelivered("late"))
    eventually(lambda: history("retried") == retried + 5)
    time.sleep(0.3)
    assert state().opened == 1
    half_open.end("probe", None)
    eventually(lambda: state().open_until is None)
    eventually(lambda: history("delivered") == 11)
    assert state().opened == 0


def test_late_bad_news_after_the_probe_opens_nothing_again(half_open, caplog):
    half_open.end("probe", None)
    eventually(lambda: history("delivered") == 6)
    half_open.end("early", Undelivered("late"))
    eventually(lambda: history("delivered") == 11)
    assert "circuit breaker opened" not in caplog.text


def test_a_probe_waits_for_no_call_that_began_before_the_pause(half_open):
    assert half_open.box.at_once == 6


def test_an_error_in_the_event_itself_opens_nothing(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": BREAKER})
    boxes["post"].answers = Permanent("too large")
    emit(30)
    hire()
    eventually(lambda: history("dead") == 30)
    assert state() is None


def test_a_destination_that_asks_for_it_is_left_alone_so_long(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": BREAKER, "CONCURRENCY": 1})
    boxes["post"].answers = Throttled("too many", seconds=1.5, status=429)
    emit(5)
    hire()
    eventually(lambda: (g := state()) and g.open_until)
    boxes["post"].answers = None
    eventually(lambda: history("delivered") == 5)
    first, second = boxes["post"].at[:2]
    assert second - first >= 1.4


def test_whoever_fails_for_long_is_told_since_when(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": False})
    boxes["post"].answers = Undelivered("out of order")
    emit(1)
    hire()
    [since] = eventually(lambda: boxes["post"].told)
    assert abs((datetime.now(UTC) - since).total_seconds()) < 60
    assert state().failing_since == since


def test_what_is_kept_of_a_long_traceback_is_the_line_that_says_what_happened(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": {**BREAKER, "pause": 60.0}})
    frames = "".join(f'  File "shop/tasks.py", line {n}, in pay\n    raise ValueError("boom")\n' for n in range(40))
    boxes["post"].answers = Undelivered(f"Traceback (most recent call last):\n{frames}ValueError: boom 17")
    emit(1)
    hire()
    assert eventually(lambda: (g := state()) and g.error) == "ValueError: boom 17"
    emit(10)
    eventually(lambda: state().open_until)
    assert state().error == "ValueError: boom 17"


def test_of_an_error_that_no_destination_has_said_the_class_is_kept(destinations, hire):
    boxes = destinations(backend="Single", post={})
    boxes["post"].answers = ConnectionRefusedError()
    emit(1)
    hire()
    assert eventually(lambda: (g := state()) and g.error) == "ConnectionRefusedError"


def test_a_batch_of_which_nothing_was_taken_fails_also_where_one_event_was_to_blame_itself(destinations, hire):
    boxes = destinations(post={"RETRY": {"limit": 0}})
    answers = [Undelivered("no credentials"), TooLarge(300, 200), Undelivered("no credentials")]
    boxes["post"].answers = lambda fact: answers[fact.data["number"]]
    emit(3)
    hire()
    eventually(lambda: history("dead") == 3)
    found = eventually(state)
    assert (found.failing_since is not None, found.error) == (True, "no credentials")


def test_a_batch_of_which_something_was_taken_does_not_fail(destinations, hire):
    boxes = destinations(post={"RETRY": {"limit": 0}})
    boxes["post"].answers = lambda fact: Undelivered("no") if fact.data["number"] else None
    emit(3)
    hire()
    eventually(lambda: (history("dead"), history("delivered")) == (2, 1))  # written one after the other
    assert state() is None


def test_a_success_ends_the_failing(destinations, hire):
    boxes = destinations(backend="Single", post={"BREAKER": False})
    boxes["post"].answers = lambda fact: Undelivered("out of order") if fact.attempt < 3 else None
    emit(1)
    hire()
    eventually(lambda: history("delivered"))
    eventually(lambda: state().failing_since is None)


def test_what_is_paused_waits_and_goes_on_when_it_is_resumed(destinations, hire):
    boxes = destinations(backend="Single", post={}, other={})
    store.pause("default", "to:post", "maintenance")
    emit(5)
    hire()
    eventually(lambda: len(boxes["other"].calls) == 5)
    assert boxes["post"].calls == []
    assert store.resume("default", "to:post")
    eventually(lambda: len(boxes["post"].calls) == 5)
    assert not store.resume("default", "to:post")


@pytest.mark.soak
def test_a_rate_is_held_by_all_workers_together(destinations, hire):
    boxes = destinations(backend="Single", post={"RATE": 100, "BURST": 5, "CONCURRENCY": 8})
    emit(1500)
    for _ in range(3):
        hire()
    eventually(lambda: len(boxes["post"].calls) >= 50)
    start = time.monotonic()
    time.sleep(8.0)
    end = time.monotonic()
    many = sum(start <= at <= end for at in list(boxes["post"].at))
    # What a busy machine misses is not made up for: the burst is that of a twentieth of a second.
    assert 50 < many / (end - start) < 105


def test_a_rate_is_never_exceeded(destinations, hire):
    boxes = destinations(backend="Single", post={"RATE": 50, "BURST": 5, "CONCURRENCY": 8})
    emit(100)
    hire()
    hire()
    eventually(lambda: len(boxes["post"].calls) == 100)
    took = boxes["post"].at[-1] - boxes["post"].at[0]
    assert took >= (100 - 5) / 50 * 0.9


def test_what_a_destination_answered_is_one_line_of_the_log_that_cannot_steer_a_terminal(destinations, hire, caplog):
    boxes = destinations(backend="Single", post={"BREAKER": {**BREAKER, "pause": 60.0}})
    boxes["post"].answers = Undelivered("The answer was 500. \x1b[31m<html>\nERROR forged", status=500)
    emit(10)
    hire()
    eventually(lambda: "circuit breaker opened" in caplog.text)
    [told] = [text for each in caplog.records if "circuit breaker opened" in (text := each.getMessage())]
    assert told.endswith("error=The answer was 500. \\x1b[31m<html>")
