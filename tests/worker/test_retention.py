"""Workers remove what is old."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection

from duebox.retention import prune
from duebox.store import retention
from duebox.worker.background_threads import Retention
from duebox.worker.watchdog import Watchdog

pytestmark = pytest.mark.django_db


@pytest.fixture
def refused(monkeypatch):
    """Whether the database refuses to remove dead letters, the first kind."""

    def refuse(*args, **options):
        raise DatabaseError("canceling statement due to statement timeout")

    monkeypatch.setattr(retention, "dead_letters", refuse)


@pytest.mark.usefixtures("refused")
def test_the_other_kinds_are_removed_where_one_cannot_be(caplog):
    kinds = [each.what for each in prune(patient=False, rest=lambda seconds: False)]
    assert kinds == ["dead letters", "events", "attempts", "schedules", "schedule log", "receipts"]
    assert "old dead letters not removed: canceling statement" in caplog.text


@pytest.mark.usefixtures("refused")
def test_by_hand_the_error_comes_at_the_end():
    with pytest.raises(DatabaseError, match="statement timeout"):
        prune(rest=lambda seconds: False)


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_ends_the_run(monkeypatch, caplog):
    def lose(*args, **options):
        connection.ensure_connection()
        connection.connection.close()
        raise DatabaseError("server closed the connection unexpectedly")

    monkeypatch.setattr(retention, "dead_letters", lose)
    Retention("default", Watchdog()).prune_safely()
    assert "old rows not removed, next try in an hour: server closed" in caplog.text
