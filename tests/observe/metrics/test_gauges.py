"""The numbers that are read from the database."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import duebox
from duebox.exceptions import Permanent
from duebox.models import Attempt, Delivery, DestinationState
from duebox.observe.metrics import gauges
from duebox.observe.metrics.gauges import DatabaseGauges, read_gauges
from duebox.store import attempts, destinations
from duebox.testing import drain
from duebox.worker.worker import Worker

pytestmark = pytest.mark.django_db


def value(gauge, *labels):
    return read_gauges("default")[gauge][labels]


def test_an_empty_database_has_all_gauges_and_all_are_zero():
    found = read_gauges("default")
    assert set(found) == set(gauges.GAUGES)
    values = {gauge.name: sum(each.values()) for gauge, each in found.items()}
    assert values.pop("database.reachable") == 1
    assert set(values.values()) == {0}


def stored_attempts(count, *, settled_at, **fields):
    known = {"event_id": "018f0000-0000-7000-8000-000000000000", "delivery_id": 1, "subscriber": "it", "number": 1}
    rows = [
        Attempt(**{**known, "outcome": "delivered", "due_at": settled_at, **fields}, settled_at=settled_at)
        for _ in range(count)
    ]
    Attempt.objects.bulk_create(rows)


def test_the_five_numbers_of_a_day(on):
    @on("order.paid", name="it")
    def it(event):
        raise Permanent("no")

    duebox.schedule("order.review_due", at=timezone.now() + timedelta(days=3), key="review:1")
    now = timezone.now()
    stored_attempts(5, settled_at=now - timedelta(hours=25))
    stored_attempts(2, settled_at=now, due_at=now - timedelta(seconds=2))
    stored_attempts(1, settled_at=now, due_at=now - timedelta(seconds=5), number=2)
    stored_attempts(1, settled_at=now, number=1, outcome="retried")
    duebox.emit("order.paid")
    drain(raises=False)
    assert value(gauges.SCHEDULED) == 1
    assert value(gauges.COMPLETED) == 3
    assert value(gauges.FAILED) == 1
    assert value(gauges.PROCESSING) == pytest.approx(3)
    assert value(gauges.RETRY_RATE) == pytest.approx(25)


@pytest.mark.large
def test_of_a_busy_day_some_attempts_are_looked_at_and_the_rest_is_estimated(monkeypatch):
    # Of 1,200: chance moves the estimate by more than 8 in one of ten million runs; with 100 it was one of sixteen.
    monkeypatch.setattr(attempts, "SAMPLE", 600)
    now = timezone.now()
    stored_attempts(300, settled_at=now - timedelta(hours=25))
    for _ in range(300):
        stored_attempts(3, settled_at=now - timedelta(hours=1))
        stored_attempts(1, settled_at=now - timedelta(hours=1), number=2)
    assert value(gauges.COMPLETED) == pytest.approx(1200, rel=0.01)
    assert value(gauges.RETRY_RATE) == pytest.approx(25, abs=8)


def test_the_beginning_of_the_day_is_found_among_gaps():
    now = timezone.now()
    stored_attempts(50, settled_at=now - timedelta(hours=30))
    stored_attempts(50, settled_at=now - timedelta(hours=2))
    ids = list(Attempt.objects.order_by("id").values_list("id", flat=True))
    Attempt.objects.filter(id__in=[*ids[10:49], *ids[52:90]]).delete()
    assert value(gauges.COMPLETED) == 12


def test_a_dead_letter_that_is_older_than_a_day_has_not_failed_today(on):
    @on("order.paid", name="it")
    def it(event):
        raise Permanent("no")

    duebox.emit("order.paid")
    drain(raises=False)
    Delivery.objects.update(died_at=timezone.now() - timedelta(days=2))
    assert value(gauges.FAILED) == 0
    assert value(gauges.DLQ_DEPTH) == 1


def test_the_queue_by_state_and_its_oldest(on):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    Delivery.objects.update(due_at=timezone.now() - timedelta(minutes=5))
    assert value(gauges.QUEUE_DEPTH, "due") == 1
    assert value(gauges.OLDEST_DUE) == pytest.approx(300, abs=30)


def test_destinations_by_state_with_their_endpoints_together():
    destinations.open_breaker(
        "default", "to:hooks/1", pause=60, longest=60, error="HTTP 503", counts=True, probed=False
    )
    destinations.pause("default", "to:hooks/2", "a test")
    destinations.pause("default", "to:bus", "a test")
    assert DestinationState.objects.count() == 3
    found = read_gauges("default")[gauges.DESTINATIONS]
    assert found["to:hooks", "open"] == 1
    assert found["to:hooks", "paused"] == 1
    assert found["to:bus", "paused"] == 1
    assert found["to:bus", "open"] == 0


def test_many_who_ask_cost_one_reading():
    asked = DatabaseGauges("default")
    first = asked.read()
    with CaptureQueriesContext(connection) as captured:
        assert asked.read() is first
    assert len(captured) == 0


def test_while_another_thread_waits_for_the_database_the_readings_before_are_given(monkeypatch):
    monkeypatch.setattr(gauges, "WAIT_SECONDS", 0.05)
    asked = DatabaseGauges("default")
    before = asked.read()
    asked._read_at = float("-inf")
    with asked._lock:
        assert asked.read() is before
    assert asked.read() is not before


def test_a_worker_waits_a_few_seconds_for_its_readings_and_no_longer():
    worker = Worker()
    with worker._metrics_connection():
        [watch] = worker.watchdog.watches
        assert 0 < watch.until - time.monotonic() <= 5


def test_a_database_that_is_away_is_a_reading_too(caplog):
    asked = DatabaseGauges("nowhere")
    assert asked.read() == {gauges.REACHABLE: {(): 0.0}}
    assert "metrics could not be read from the database" in caplog.text
