"""Thousands of endpoints with something to deliver: each has its turn, and the question is not asked for each round."""

from __future__ import annotations

import pytest

import duebox
from duebox.models import Delivery, DestinationState
from duebox.worker.senders import claim
from duebox.worker.senders.claim import ReadyDestinations
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)

LETTERS = "abcdefghij"


def store(*names):
    event = duebox.emit("letter.sent").id
    Delivery.objects.bulk_create(Delivery(event_id=event, subscriber=f"to:post/{name}") for name in names)


def names(looked):
    return [each.name.removeprefix("to:post/") for each in looked]


def test_a_few_are_asked_for_each_time(django_assert_num_queries):
    store("a", "b")
    looks = ReadyDestinations("default")
    with django_assert_num_queries(2):
        assert set(names(looks.names())) == {"a", "b"}
        assert not looks.more
        assert set(names(looks.names())) == {"a", "b"}


def test_of_many_each_has_its_turn_before_it_is_asked_again(tune, django_assert_num_queries):
    tune(destination_slice=4)
    store(*LETTERS)
    looks = ReadyDestinations("default")
    with django_assert_num_queries(1):
        turns = [names(looks.names()) for _ in range(3)]
    assert list(map(len, turns)) == [4, 4, 2]
    assert sorted(name for turn in turns for name in turn) == list(LETTERS)
    assert not looks.more
    assert looks.all_names() == {f"to:post/{letter}" for letter in LETTERS}
    store("k")
    looks.names()
    assert looks.all_names() == {f"to:post/{letter}" for letter in [*LETTERS, "k"]}


def test_what_was_found_grows_older(monkeypatch, tune):
    tune(destination_slice=1)
    store("a", "b")
    Delivery.objects.filter(subscriber__startswith="to:").update(due_at="2099-01-01T00:00:00Z")
    for letter in "ab":
        DestinationState.objects.create(name=f"to:post/{letter}", open_until="2099-01-01T00:00:00Z")
    looks = ReadyDestinations("default")
    looks.names()
    asked_at = looks._asked_at
    monkeypatch.setattr(claim.time, "monotonic", lambda: asked_at + 100.0)
    [aged] = looks.names()
    assert aged.due_in == pytest.approx(looks._found[1].due_in - 100.0)
    assert aged.opens_in == pytest.approx(looks._found[1].opens_in - 100.0)


@pytest.mark.parametrize("until_idle", [False, True])
def test_a_worker_serves_them_all(tune, destinations, hire, until_idle):
    tune(destination_slice=3)
    destinations(parts={"KIND": "Parts"})
    for _ in range(5):
        duebox.emit("letter.sent", {"letters": list(LETTERS)})
    hire(until_idle=until_idle)
    eventually(lambda: not Delivery.objects.exists())
