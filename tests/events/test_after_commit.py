from __future__ import annotations

import pytest
from django.db import connection, transaction

import duebox

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def inline(settings, on):
    settings.DUEBOX = {"MODE": "inline", "UNDECLARED": "allow"}
    seen = []
    on("a.b", name="noted")(lambda event: seen.append(event.data["n"]))
    return seen


def test_a_transaction_with_many_events_is_followed_by_one_delivery(inline):
    with transaction.atomic():
        for n in range(3):
            duebox.emit("a.b", {"n": n})
            transaction.on_commit(lambda: None)
        assert len(connection.run_on_commit) == 4
        assert inline == []
    assert inline == [0, 1, 2]


def test_what_a_savepoint_rolls_back_does_not_take_the_delivery_of_the_rest_away(inline):
    with transaction.atomic():
        with transaction.atomic():
            duebox.emit("a.b", {"n": 1})
            transaction.set_rollback(True)
        duebox.emit("a.b", {"n": 2})
    assert inline == [2]


def test_with_workers_nothing_follows_a_commit(settings):
    settings.DUEBOX = {"UNDECLARED": "allow"}
    with transaction.atomic():
        duebox.emit("a.b")
        assert connection.run_on_commit == []


def test_where_transactions_are_managed_by_hand_an_event_is_stored_and_waits(inline):
    transaction.set_autocommit(False)
    try:
        duebox.emit("a.b", {"n": 1})
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert inline == []
    duebox.emit("a.b", {"n": 2})
    assert inline == [1, 2]
