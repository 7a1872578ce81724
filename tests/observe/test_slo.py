"""Objectives by the counts per minute: their values, burn rates and states, and what stopped coming."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

import duebox
from duebox.models import Delivery, Rollup, Schedule
from duebox.observe.rollup import HOUR, MINUTE
from duebox.observe.slo import BROKEN, NO_DATA, OK, WARNING, slo
from duebox.store import rollup as store
from duebox.store.rollup import Counts
from tests.support import a_lease

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
HOOKS = {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}}


def counted(kind, name, minutes_ago=10, *, now=NOW, times=(), histogram="wait", **counters):
    """A row of the rollup, with its sum. `times` are pairs of milliseconds and how many."""
    rows = {}
    for each in (name, ""):
        counts = rows[(kind, each, now - minutes_ago * MINUTE)] = Counts()
        counts.counters.update(counters)
        for ms, number in times:
            bucket = next(place for place, bound in enumerate(store.BOUNDS_MS) if ms < bound)
            counts.measured(histogram, bucket, number, ms * number)
    store.write("default", rows)


@pytest.fixture(autouse=True)
def _up_to_date():
    store.set_progress("default", "first", NOW)
    store.set_progress("default", "again", NOW - 25 * HOUR)  # the rows of these tests are minutes


def objective(name, **options):
    return {each.name: each for each in slo(now=NOW, **options).objectives}[name]


def test_without_data_nothing_is_broken():
    report = slo(now=NOW)
    states = {each.name: each.state for each in report.objectives}
    assert states.pop("dead_letters") == OK
    assert set(states.values()) == {NO_DATA}
    assert len(states) == 4
    assert not report.is_broken


@pytest.mark.parametrize(
    ("delivered", "retried", "dead", "state"),
    [(10_000, 0, 0, OK), (9_970, 20, 10, WARNING), (9_900, 90, 10, BROKEN)],
)
def test_delivery_success_is_the_share_of_attempts_that_delivered(delivered, retried, dead, state):
    counted("subscriber", "shop.bill", delivered=delivered, retried=retried, dead=dead)
    found = objective("delivery_success")
    assert found.state == state
    assert found.value == pytest.approx(100 * delivered / 10_000)
    assert found.count_1h == 10_000
    assert (found.target, found.alert) == (99.9, 99.5)
    assert found.burn_1h == pytest.approx((100 - found.value) / 0.1)


def test_webhooks_have_an_objective_of_their_own():
    with override_settings(DUEBOX={"DESTINATIONS": HOOKS}):
        counted("subscriber", "shop.bill", delivered=1000)
        counted("subscriber", "to:hooks", delivered=90, retried=10)
        assert objective("webhook_success").state == BROKEN
        assert objective("webhook_success").value == pytest.approx(90)
        assert objective("delivery_success").value == pytest.approx(100)


def test_publish_latency_is_that_of_one_in_a_hundred():
    counted("subscriber", "shop.bill", times=[(50, 900), (7_000, 100)])
    found = objective("publish_seconds")
    assert found.state == WARNING
    assert 5 < found.value < 10
    assert 3 < found.burn_1h < 10.1  # a tenth took longer than 5 seconds, one in a hundred may
    counted("subscriber", "shop.bill", times=[(20_000, 100)])
    assert objective("publish_seconds").state == BROKEN


def test_an_hour_that_failed_counts_for_a_day():
    counted("subscriber", "shop.bill", 300, delivered=900, retried=100)
    counted("subscriber", "shop.bill", 10, delivered=100)
    found = objective("delivery_success")
    assert found.value == 100
    assert (found.burn_1h, found.state) == (0, WARNING)
    assert found.burn_24h > 1


def test_what_still_waits_is_late_though_nothing_started(on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit("a.b")
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=30))
    assert objective("publish_seconds").state == BROKEN
    assert objective("publish_seconds").value == pytest.approx(30, abs=5)


@pytest.mark.parametrize(("dead", "state"), [(0, OK), (1, WARNING), (10, WARNING), (11, BROKEN)])
def test_dead_letters_are_those_of_now_without_the_parked(on, dead, state):
    on("a.b", name="it")(lambda event: None)
    for _ in range(dead + 1):
        duebox.emit("a.b")
    ids = list(Delivery.objects.values_list("id", flat=True))
    Delivery.objects.filter(id__in=ids[1:]).update(status="dead", died_at=NOW)
    Delivery.objects.filter(id=ids[0]).update(status="parked")
    counted("gauge", "dead", 10, count=20)
    found = objective("dead_letters")
    assert (found.value, found.state, found.burn_1h) == (dead, state, 2.0)


def test_schedules_should_fire_within_a_minute():
    counted("schedule", "visit.reminded", times=[(100, 10)], histogram="lateness")
    assert objective("schedule_seconds").state == OK
    counted("schedule", "visit.reminded", 9, times=[(300_000, 10)], histogram="lateness")
    assert objective("schedule_seconds").state == BROKEN


def test_targets_can_be_set_and_objectives_switched_off():
    counted("subscriber", "shop.bill", delivered=90, retried=10)
    with override_settings(DUEBOX={"SLO": {"delivery_success": {"target": 80, "alert": 70}, "dead_letters": None}}):
        report = slo(now=NOW)
    assert "dead_letters" not in {each.name for each in report.objectives}
    assert {each.name: each.state for each in report.objectives}["delivery_success"] == OK


# Absence


def came(name, hours):
    rows = {("event", name, NOW - hour * HOUR): Counts() for hour in hours}
    for counts in rows.values():
        counts.counters["count"] = 1
    store.write("default", rows)
    Rollup.objects.filter(span=1, minute__lt=NOW - 2 * HOUR).update(span=60)


def test_a_type_that_came_every_hour_and_does_not_is_absent():
    came("order.paid", range(5, 300))
    came("order.sent", range(1, 300))
    report = slo(now=NOW)
    assert [(each.kind, each.name) for each in report.absent] == [("event", "order.paid")]
    assert "No order.paid event was emitted for" in report.absent[0].text
    assert report.is_broken


def test_a_type_that_pauses_at_weekends_may_pause():
    came("order.paid", [hour for hour in range(60, 336) if hour % 168 < 108])
    assert slo(now=NOW).absent == ()


def test_a_type_that_came_now_and_then_is_not_missed():
    came("order.paid", [100, 180, 190, 300])
    assert slo(now=NOW).absent == ()


def test_a_type_that_came_in_the_last_minutes_is_there():
    came("order.paid", range(5, 300))
    counted("event", "order.paid", 3, count=1)
    assert slo(now=NOW).absent == ()


def test_a_type_that_is_not_to_come_again_is_ignored():
    came("order.paid", range(5, 300))
    with override_settings(DUEBOX={"SLO": {"ignore": ["order.*"]}}):
        assert slo(now=NOW).absent == ()


def test_a_schedule_that_should_have_fired_is_absent():
    duebox.schedule("a.b", at=timezone.now() + timedelta(hours=1), key="late one")
    due = timezone.now() - timedelta(minutes=5)
    Schedule.objects.update(due_at=due)
    store.set_progress("default", "first", due)
    report = slo(now=timezone.now())
    assert [(each.kind, each.name, each.since) for each in report.absent] == [("schedule", "late one", due)]
    assert "'late one' should have fired a.b 5 min" in report.absent[0].text
    assert {each.name: each.state for each in report.objectives}["schedule_seconds"] == BROKEN


def test_minutes_that_nobody_counts_are_a_problem_of_their_own():
    came("order.paid", range(5, 300))
    a_lease()
    store.set_progress("default", "first", NOW - 30 * MINUTE)
    [absence] = slo(now=NOW).absent
    assert absence.kind == "rollup"
    assert "a worker counts them" in absence.text
