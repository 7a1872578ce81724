from __future__ import annotations

import pytest

import duebox
from duebox.models import Attempt, Delivery, Event
from duebox.store import dead
from duebox.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(on):
    """Two dead letters: 'a.b' to it, 'a.c' to other."""

    @on("a.b", name="it", retry=duebox.Retry(limit=1, first=0))
    def it(event):
        raise ValueError(f"no luck with {event.data['number']}")

    @on("a.c", name="other")
    def other(event):
        raise duebox.Permanent("no such address")

    for number, each in enumerate(("a.b", "a.c", "a.seen")):
        duebox.emit(each, {"number": number})
    drain(raises=False)
    return list(Delivery.objects.order_by("id"))


def test_dead_letters_are_found_with_their_event_and_their_error(letters):
    one, two = dead.find("default")
    assert (one.id, one.event_type, one.subscriber, one.data) == (letters[0].id, "a.b", "it", {"number": 0})
    assert one.error_line == "ValueError: no luck with 0"
    assert two.error_line == "duebox.exceptions.Permanent: no such address"
    assert one.as_dict()["died_at"] == one.died_at.isoformat()
    assert one.event_id == str(letters[0].event_id)


def test_dead_letters_are_found_by_id_type_and_subscriber(letters):
    one, two = (each.id for each in letters)

    def found(**filters):
        return [each.id for each in dead.find("default", **filters)]

    assert found(ids=[two]) == [two]
    assert found(type="a.b") == [one]
    assert found(subscriber="other") == [two]
    assert found(type="a.b", subscriber="other") == []
    assert found(limit=1) == [one]
    assert [dead.count("default"), dead.count("default", type="a.b"), dead.count("default", type="a.x")] == [2, 1, 0]


def test_the_history_tells_every_attempt(letters):
    one, _ = dead.find("default")
    assert [(each["number"], each["outcome"]) for each in one.history("default")] == [(1, "retried"), (2, "dead")]


def test_a_redriven_letter_is_due_again_with_fresh_retries_and_its_past_is_kept(letters):
    one = letters[0].id
    assert dead.redrive("default", [one], note="redriven by a test") == [one]
    row = Delivery.objects.get(id=one)
    assert (row.status, row.attempt, row.rescues, row.lease) == ("pending", 0, 0, None)
    told = list(Attempt.objects.filter(delivery_id=one).order_by("id").values_list("number", "outcome"))
    assert told == [(1, "retried"), (2, "dead"), (0, "redriven")]
    assert Attempt.objects.get(outcome="redriven").note == "redriven by a test"


def test_a_letter_that_dies_again_shows_its_last_death(letters):
    dead.redrive("default", [letters[0].id], note="again")
    drain(raises=False)
    (one,) = dead.find("default", ids=[letters[0].id])
    deaths = Attempt.objects.filter(delivery_id=one.id, outcome="dead").order_by("id")
    assert len(deaths) == 2
    assert one.died_at == deaths[1].settled_at


def test_only_dead_letters_can_be_redriven(letters, on):
    on("a.pending", name="slow")(lambda event: None)
    duebox.emit("a.pending")
    pending = Delivery.objects.get(subscriber="slow")
    before = Delivery.objects.filter(id=pending.id).values().get()
    assert dead.redrive("default", [pending.id, 999_999], note="no") == []
    assert Delivery.objects.filter(id=pending.id).values().get() == before


def test_a_dead_letter_whose_event_is_gone_can_still_be_listed(letters):
    Event.objects.filter(id=letters[0].event_id).delete()
    one, _ = dead.find("default")
    assert (one.event_type, one.data) == ("(gone)", {})
