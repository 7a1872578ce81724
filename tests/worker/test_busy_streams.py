"""Two busy streams, and the others behind them."""

from __future__ import annotations

from collections import Counter

import pytest

import duebox
from duebox.models import Attempt, Delivery
from duebox.store.deliveries import claim
from duebox.worker.claimer import BusyStreams
from tests.support import a_lease, eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def it(on):
    on("a.b", name="it", ordered=True)(lambda event: None)


@pytest.fixture
def few_at_a_time(tune):
    tune(busy_stream_chunk=10)


def emit(count, *keys):
    duebox.emit_many(duebox.NewEvent(type="a.b", about=("account", keys[n % len(keys)])) for n in range(count))


def claim_past(busy, limit=8):
    """As the worker does it; gives the keys that it may work on."""
    claims, parked = claim("default", a_lease(), ["it"], limit, past=busy.streams)
    busy.see(parked, {"it": limit})
    return [each.fact.about[1] for each in claims]


@pytest.mark.usefixtures("it", "few_at_a_time")
def test_the_second_claim_meets_the_others(transactional_db):
    emit(100, "hot", "hotter")
    emit(3, "x", "y", "z")
    busy = BusyStreams("default")
    assert claim_past(busy) == ["hot", "hotter"]
    assert busy.streams == ["account:hot", "account:hotter"]
    assert claim_past(busy) == ["x", "y", "z"]


@pytest.mark.usefixtures("it", "few_at_a_time")
def test_all_but_the_heads_of_a_busy_stream_are_parked_a_few_at_a_time(transactional_db):
    emit(100, "hot")
    busy = BusyStreams("default")
    claim_past(busy)
    waiting = []
    while busy:
        waiting.append(Delivery.objects.blocked().count())
        busy.see(Counter(), {"it": 8})
    assert waiting == [17, 27, 37, 47, 57, 67, 77, 87, 97]
    assert Delivery.objects.blocked().count() == 99


@pytest.mark.usefixtures("it")
def test_the_head_of_a_busy_stream_has_its_turn_again_when_the_rest_is_parked(transactional_db):
    emit(20, "hot")
    busy = BusyStreams("default")
    assert claim_past(busy) == ["hot"]
    Delivery.objects.filter(lease__isnull=False).delete()  # the head is done, and nobody has promoted the next one
    busy.see(Counter({("it", "account:hot"): 8}), {"it": 8})
    assert not busy
    assert claim_past(busy) == ["hot"]


@pytest.mark.usefixtures("it", "few_at_a_time")
def test_a_stream_that_grows_as_fast_as_it_is_parked_is_not_passed_over_for_ever(tune, transactional_db):
    tune(busy_stream_seconds=0.0)
    emit(100, "hot")
    busy = BusyStreams("default")
    claim_past(busy)
    assert not busy


@pytest.mark.usefixtures("it", "few_at_a_time")
def test_what_is_not_due_yet_or_in_hand_is_not_parked(transactional_db):
    emit(12, "hot")
    Delivery.objects.filter(id=Delivery.objects.order_by("id")[9].id).update(due_at="2099-01-01T00:00:00Z")
    Delivery.objects.filter(id=Delivery.objects.order_by("id")[10].id).update(lease=a_lease())
    busy = BusyStreams("default")
    claim_past(busy, limit=4)
    while busy:
        busy.see(Counter(), {"it": 4})
    assert [each.status for each in Delivery.objects.order_by("id")].count("pending") == 3


@pytest.mark.usefixtures("it")
def test_a_few_behind_each_of_many_streams_are_no_crowd(transactional_db):
    emit(40, *range(20))
    busy = BusyStreams("default")
    claims, parked = claim("default", a_lease(), ["it"], 40)
    busy.see(parked, {"it": 40})
    assert len(claims) == 20
    assert parked.total() == 20
    assert not busy


def test_a_worker_brings_both_to_their_end_in_order(hire, on, few_at_a_time, transactional_db):
    keys, seen = ("hot", "hotter"), []

    @on("a.b", name="it", ordered=True)
    def handler(event):
        seen.append(event.data["n"])

    duebox.emit_many(
        duebox.NewEvent(type="a.b", about=("account", keys[n % 2] if n < 200 else n % 10), data={"n": n})
        for n in range(300)
    )
    hire(until_idle=True)
    eventually(lambda: Attempt.objects.filter(outcome="delivered").count() == 300)
    by_key = {}
    for n in seen:
        by_key.setdefault(keys[n % 2] if n < 200 else n % 10, []).append(n)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert sum(map(len, by_key.values())) == 300
