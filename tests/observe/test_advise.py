"""Advice: the measured figures, their thresholds, and what to do about them."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.test import override_settings
from django.utils import timezone

import duebox
from duebox.models import Delivery, Schedule
from duebox.observe import advise as module
from duebox.observe.advise import THRESHOLDS, advise, get_metrics
from duebox.store import database_state
from tests.observe.test_slo import NOW, counted
from tests.support import a_lease, connection_params

pytestmark = pytest.mark.django_db


def issues(**options):
    return {each.issue: each for each in advise(now=NOW, **options).recommendations}


def test_where_nothing_happens_nothing_needs_to_change(quiet_server):
    found = advise(now=NOW).as_dict()
    assert found["evolution_needed"] is False
    assert found["recommendations"] == []
    assert found["metrics"] == {
        "scheduled_count": 0, "completed_24h": 0, "failed_24h": 0, "processing_time_avg": 0.0, "retry_rate": 0.0,
    }  # fmt: skip
    assert set(found["facts"]) == set(THRESHOLDS)


def test_the_five_numbers(monkeypatch):
    duebox.schedule("a.b", at=timezone.now() + timedelta(hours=1))
    counted("subscriber", "shop.bill", 30, delivered=75, dead=5, repeated=8, retried=9, count=80)
    counted("subscriber", "shop.bill", 20, times=[(4_000, 10)], histogram="lateness", count=10)
    counted("subscriber", "shop.bill", 3 * 24 * 60, delivered=20, repeated=12)
    assert get_metrics(now=NOW) == {
        "scheduled_count": 1,
        "completed_24h": 75,
        "failed_24h": 5,
        "processing_time_avg": pytest.approx(40_000 / 90 / 1000, abs=0.001),
        "retry_rate": 20.0,
    }
    monkeypatch.setattr(module, "MOST", 0)
    assert get_metrics(now=NOW)["scheduled_count"] == 1


def test_a_high_volume_is_answered_as_the_thresholds_say(quiet_server):
    counted("subscriber", "shop.bill", 30, delivered=24 * 10_000 + 24)
    [hour, day] = advise(now=NOW).recommendations
    assert (hour.issue, hour.current, hour.threshold) == ("High event volume", 10_001, 10_000)
    assert hour.recommendation.startswith("Consider adding Redis caching layer")
    assert (day.current, day.threshold) == (240_024, 100_000)
    with override_settings(DUEBOX={"REDIS_URL": "redis://localhost"}):
        assert "in use already" in issues()["High event volume"].recommendation


def test_a_high_failure_rate():
    counted("subscriber", "shop.bill", 30, delivered=94, dead=6)
    found = issues()["High failure rate"]
    assert (found.current, found.threshold) == (6.0, 5.0)
    assert found.recommendation.startswith("Investigate failure causes, consider circuit breakers")


def test_a_high_delay():
    counted("subscriber", "shop.bill", 30, times=[(100_000, 10)], histogram="lateness", count=10)
    assert issues()["High delay"].current == 100.0


def test_a_peak_of_events():
    counted("event", "order.paid", 30, count=60_001)
    assert "11:30 UTC" in issues()["High peak of events"].recommendation


def test_a_backlog_names_the_workers(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    Delivery.objects.update(due_at=timezone.now() - timedelta(minutes=5))
    assert "no worker runs" in issues()["Deliveries wait"].recommendation
    a_lease()
    assert "1 are due for 1 workers; add more" in issues()["Deliveries wait"].recommendation


def test_busy_threads_and_the_handler_that_keeps_them_busy():
    a_lease()
    counted("subscriber", "shop.slow", 30, times=[(60_000, 200)], histogram="duration")
    counted("subscriber", "shop.fast", 20, times=[(1, 200)], histogram="duration")
    found = issues()
    assert found["Handlers use most of the worker threads"].current > 70
    assert "--only shop.slow" in found["shop.slow uses most of the handler time"].recommendation


def test_dead_rows_and_an_open_transaction_and_many_events(monkeypatch):
    tables = [
        {"table": "duebox_delivery", "live": 10_000, "dead": 30_000, "vacuumed": None},
        {"table": "duebox_event", "live": 60_000_000, "dead": 0, "vacuumed": None},
    ]
    facts = database_state.ServerFacts(tables, 0, 400.0, 123, "psql", 0.5)
    monkeypatch.setattr(database_state, "server_facts", lambda using: facts)
    found = issues()
    assert found["Dead rows in duebox_delivery"].current == 75
    assert "Session 123 (psql)" in found["A transaction stays open"].recommendation
    assert found["The queue of NOTIFY fills up"].current == 50
    assert found["Many stored events"].current == 60_000_000


@pytest.mark.django_db(transaction=True)
def test_the_server_tells_of_tables_and_open_transactions():
    Schedule.objects.count()
    with psycopg.connect(**connection_params(), application_name="left open") as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        facts = database_state.server_facts("default")
        assert facts.oldest_transaction_application == "left open"
        assert facts.oldest_transaction_pid == other.info.backend_pid
        assert facts.oldest_transaction_seconds >= 0
    assert {each["table"] for each in facts.tables} == {
        "duebox_attempt", "duebox_delivery", "duebox_event", "duebox_schedule",
    }  # fmt: skip
    assert facts.notify_queue_share < 0.1
