"""Emit with a key: the same fact is stored once."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

import duebox
from duebox import NewEvent
from duebox.exceptions import IdempotencyConflict, InvalidEvent
from duebox.models import Delivery, Event
from duebox.testing import captured

pytestmark = pytest.mark.django_db


def test_the_same_key_gives_the_first_event_back(on):
    on("member.invited", name="it")(lambda event: None)
    first = duebox.emit("member.invited", {"a": 1.5}, about=("member", 1), idempotency_key="k")
    again = duebox.emit("member.invited", {"a": 1.5}, about=("member", 1), idempotency_key="k")
    assert (first.created, again.created) == (True, False)
    assert again.id == first.id
    assert (Event.objects.count(), Delivery.objects.count()) == (1, 1)


def test_the_same_key_for_another_type_is_another_event():
    duebox.emit("member.invited", idempotency_key="k")
    assert duebox.emit("member.left", idempotency_key="k").created


def test_the_same_key_with_other_data_is_refused_naming_what_differs():
    first = duebox.emit("member.invited", {"a": 1}, about=("member", 1), organization=1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as caught:
        duebox.emit("member.invited", {"a": 2}, about=("member", 2), organization=2, version=2, idempotency_key="k")
    assert caught.value.differs == ["data", "about", "organization", "version"]
    assert caught.value.first_id == first.id
    assert str(caught.value) == (
        f"Event 'member.invited' with key 'k' was already emitted as {first.id} with a different data, about, "
        "organization, version; use another key, or pass on_conflict='first' to take the first one."
    )


def test_a_conflict_leaves_the_transaction_good():
    duebox.emit("member.invited", {"a": 1}, idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match="different data;"):
        duebox.emit("member.invited", {"a": 2}, idempotency_key="k")
    assert duebox.emit("member.left").created


def test_by_option_the_first_one_is_taken_whatever_differs():
    first = duebox.emit("member.invited", {"a": 1}, idempotency_key="k")
    again = duebox.emit("member.invited", {"a": 2}, idempotency_key="k", on_conflict="first")
    assert (again.id, again.created, again.data) == (first.id, False, {"a": 1})


def test_an_unknown_option_for_conflicts_is_refused():
    with pytest.raises(InvalidEvent, match="on_conflict='frist' must be 'error' or 'first'"):
        duebox.emit("member.invited", idempotency_key="k", on_conflict="frist")


def test_numbers_that_jsonb_writes_differently_are_no_conflict():
    data = {"large": 1e23, "huge": 1.7976931348623157e308, "small": 5e-324, "zero": -0.0, "whole": 2.0}
    duebox.emit("member.invited", data, idempotency_key="k")
    assert not duebox.emit("member.invited", data, idempotency_key="k").created


def test_a_key_repeated_within_one_call_is_stored_once(on):
    on("member.invited", name="it")(lambda event: None)
    new = NewEvent(type="member.invited", data={"a": 1}, idempotency_key="k")
    one, two, three = duebox.emit_many([new, new, NewEvent(type="member.invited")])
    assert (one.created, two.created, three.created) == (True, False, True)
    assert one.id == two.id
    assert (Event.objects.count(), Delivery.objects.count()) == (2, 2)


def test_a_key_repeated_within_one_call_with_other_data_is_refused():
    with pytest.raises(IdempotencyConflict, match="different data"):
        duebox.emit_many(
            [NewEvent(type="member.invited", data={"a": number}, idempotency_key="k") for number in (1, 2)]
        )


def test_only_what_was_stored_is_announced():
    with captured() as facts:
        duebox.emit("member.invited", idempotency_key="k")
        duebox.emit("member.invited", idempotency_key="k")
    assert len(facts) == 1


def emit_in_thread(results):
    try:
        results.append(duebox.emit("member.invited", {"a": 1}, idempotency_key="k"))
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("commit", [True, False])
def test_of_two_concurrent_transactions_with_one_key_one_stores_it(elsewhere, commit):
    results = []
    rival = threading.Thread(target=emit_in_thread, args=[results])
    with transaction.atomic():
        mine = duebox.emit("member.invited", {"a": 1}, idempotency_key="k")
        rival.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
        while not elsewhere.execute(waiting).fetchone():
            elsewhere.rollback()  # for a fresh look at the activity
        assert results == []
        transaction.set_rollback(not commit)
    rival.join(10)
    (theirs,) = results
    assert theirs.created is not commit
    assert (theirs.id == mine.id) is commit
    assert Event.objects.get().id == theirs.id


@pytest.mark.django_db(transaction=True)
def test_two_callers_with_the_same_keys_in_another_order_do_not_deadlock():
    failed = []

    def emit_all(keys):
        try:
            duebox.emit_many(NewEvent(type="member.invited", idempotency_key=key) for key in keys)
        except Exception as error:
            failed.append(error)
        finally:
            connections.close_all()

    for batch in range(10):
        keys = [f"{batch}-{number:03}" for number in range(200)]
        rivals = [threading.Thread(target=emit_all, args=[each]) for each in (keys, keys[::-1])]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
    assert failed == []
    assert Event.objects.count() == 2000
