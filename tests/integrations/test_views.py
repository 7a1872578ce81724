"""The views for monitoring, through Django's test client."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import RequestFactory
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

import duebox
from duebox.integrations import views
from duebox.models import Delivery
from duebox.store import leases

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(views, "_last", (float("-inf"), {}))
    views._gauges.cache_clear()


def answer(view=views.health_view, method="get"):
    return view(getattr(RequestFactory(), method)("/health/duebox/"))


def body(response):
    return json.loads(response.content)


def test_nothing_wrong_is_200(on):
    leases.take("default", 60)
    response = answer()
    assert response.status_code == 200
    assert body(response) == {
        "healthy": True, "problems": [], "workers": 1, "due": 0, "oldest_due_seconds": None, "dead": 0,
    }  # fmt: skip
    assert "no-store" in response["Cache-Control"]


def test_something_due_and_no_worker_is_503_with_the_repair(on):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    Delivery.objects.update(due_at=timezone.now() - timedelta(hours=1))
    response = answer()
    assert response.status_code == 503
    [problem] = body(response)["problems"]
    assert "no worker is running; start one: manage.py duebox worker" in problem


def test_a_database_that_does_not_answer_is_503_and_says_nothing_of_its_address(monkeypatch):
    def away():
        raise OperationalError("connection to server at 10.1.2.3 failed")

    monkeypatch.setattr(views, "status", away)
    response = answer()
    assert (response.status_code, body(response)) == (
        503,
        {"healthy": False, "problems": ["The database does not answer"]},
    )


@pytest.fixture
def slow_table(monkeypatch):
    """A table of Duebox that cannot be read, because somebody else holds a lock on it."""
    monkeypatch.setattr(views, "STATEMENT_SECONDS", 0.2)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE duebox_delivery IN ACCESS EXCLUSIVE MODE")
        yield
    other.close()


def test_a_database_that_is_too_slow_is_503(slow_table):
    response = answer()
    assert response.status_code == 503
    assert body(response)["problems"] == ["The database did not answer within 0.2 s"]


def test_the_gauges_of_a_database_that_is_too_slow_say_that_it_is_not_reachable(slow_table):
    assert "duebox_database_reachable 0.0" in answer(views.metrics_view).content.decode()


def test_probes_that_come_often_cost_one_look(django_assert_num_queries):
    answer()
    with django_assert_num_queries(0):
        assert answer().status_code == 200


def test_only_reading_is_allowed():
    assert answer(method="post").status_code == 405
    assert answer(views.metrics_view, method="post").status_code == 405


def test_the_gauges_can_be_scraped_from_a_web_process():
    response = answer(views.metrics_view)
    names = {each.name for each in text_string_to_metric_families(response.content.decode())}
    assert {"duebox_events_dlq_depth", "duebox_queue_depth", "duebox_scheduled_count"} <= names
    assert connection.is_usable()
