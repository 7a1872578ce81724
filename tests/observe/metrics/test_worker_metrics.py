"""What a real worker counts and measures."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

import duebox
from duebox.context import metrics
from duebox.events.outcomes import Discard, Retried, Snooze
from duebox.exceptions import Permanent, Throttled, Undelivered
from duebox.models import Attempt, Delivery
from duebox.store import destinations
from duebox.store.deliveries import Claim
from duebox.worker.measure import consumer_of, measure
from tests.support import a_lease, claims_of, ended, eventually, expire

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def configure(settings):
    settings.DUEBOX = {
        **settings.DUEBOX,
        "METRICS": ["prometheus"],
        "POLL_SECONDS": 0.1,
        "LEASE_SECONDS": 3,
        "THREADS": 2,
    }


def test_an_event_is_published_once_and_succeeds_for_each_consumer(hire, on):
    on("order.paid", name="a.first")(lambda event: None)
    on("order.*", name="b.second")(lambda event: None)
    for _ in range(3):
        duebox.emit("order.paid")
    hire()
    eventually(lambda: not Delivery.objects.exists())
    eventually(lambda: sum(metrics.SUCCESS.read().values()) == 6)
    assert metrics.PUBLISHED.read() == {("order.paid",): 3}
    assert metrics.SUCCESS.read() == {("a.first",): 3, ("b.second",): 3}
    assert metrics.SETTLED.read() == {("delivered",): 6}
    assert metrics.FAILURE.read() == {}
    assert metrics.CLAIM_DURATION.read()[()].total > 0


def test_failed_attempts_are_counted_by_the_class_of_their_error(hire, on):
    @on("order.paid", name="fails")
    def fails(event):
        raise Permanent("no") if event.data["last"] else ValueError("again")

    duebox.emit("order.paid", {"last": True})
    duebox.emit("order.paid", {"last": False})
    hire()
    eventually(lambda: sum(metrics.SETTLED.read().values()) == 2)
    assert metrics.FAILURE.read() == {("fails", "Permanent"): 1, ("fails", "ValueError"): 1}
    assert metrics.SETTLED.read() == {("dead",): 1, ("retried",): 1}
    assert metrics.SUCCESS.read() == {("fails",): 0}
    assert metrics.PUBLISHED.read() == {}


def test_from_emission_to_start_is_measured_apart_from_the_lateness_of_schedules(hire, on):
    on("order.paid", name="it")(lambda event: None)
    on("order.review_due", name="it.too")(lambda event: None)
    hire()
    duebox.emit("order.paid")
    duebox.schedule("order.review_due", at=timezone.now() + timedelta(seconds=0.3), key="review:1")
    eventually(lambda: Attempt.objects.count() == 2)
    eventually(lambda: sum(metrics.SUCCESS.read().values()) == 2)
    waited, late = metrics.COMMIT_TO_START.read()[()], metrics.LATENESS.read()[()]
    assert (waited.total, late.total) == (1, 1)
    assert 0 <= waited.sum < 5
    assert 0 <= late.sum < 5
    took = metrics.HANDLER_DURATION.read()
    assert {labels: found.total for labels, found in took.items()} == {("it",): 1, ("it.too",): 1}


def test_without_the_setting_a_worker_does_not_measure(hire, on, settings):
    settings.DUEBOX = {**settings.DUEBOX, "METRICS": []}
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    worker = hire()
    eventually(lambda: worker.outcome_counts.delivered)
    assert metrics.SETTLED.read() == {}


def test_a_lost_lease_is_counted(hire):
    worker = hire()
    worker.lease.abandon("a test")
    assert metrics.LEASE_LOSSES.read() == {(): 1}


def test_what_is_taken_back_from_a_lost_worker_is_counted(hire, on):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    lease = a_lease()
    claims_of(lease, "it")
    expire(lease)
    hire()
    eventually(lambda: not Delivery.objects.exists())
    assert metrics.RESCUED.read() == {(): 1}


def claimed(*subscribers: str) -> list[Claim]:
    return claims_of(a_lease(), *subscribers)


@pytest.mark.parametrize(
    ("outcome", "word", "failures"),
    [
        (Discard("no need"), "discarded", {}),
        (Snooze(timedelta(hours=1)), "snoozed", {}),
        (Retried(1.0, Throttled("busy")), "retried", {}),
        (Retried(1.0, Undelivered("HTTP 503")), "retried", {("it", "Undelivered"): 1}),
    ],
)
def test_a_busy_destination_is_no_failure(on, outcome, word, failures):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    [claim] = claimed("it")
    measure([ended(claim, outcome)])
    assert metrics.SETTLED.read() == {(word,): 1}
    assert metrics.FAILURE.read() == failures


def test_a_retry_says_nothing_about_the_wait_of_the_first_attempt(on):
    on("order.paid", name="it")(lambda event: None)
    duebox.emit("order.paid")
    [claim] = claimed("it")
    claim.attempt = 2
    measure([ended(claim)])
    assert metrics.COMMIT_TO_START.read()[()].total == 0
    assert metrics.HANDLER_DURATION.read()[("it",)].total == 1


def test_an_event_that_was_deleted_is_counted_and_belongs_to_no_type(on):
    on("order.paid", name="it")(lambda event: None)
    fact = duebox.emit("order.paid")
    duebox.models.Event.objects.filter(id=fact.id).delete()
    [claim] = claimed("it")
    measure([ended(claim, Discard("its event was deleted"))])
    assert metrics.SETTLED.read() == {("discarded",): 1}
    assert metrics.PUBLISHED.read() == {}


def test_the_endpoints_of_a_destination_are_one_consumer():
    assert consumer_of("to:webhooks/8e0f") == "to:webhooks"
    assert consumer_of("to:bus") == "to:bus"
    assert consumer_of("shop.mail") == "shop.mail"


@pytest.mark.parametrize("total", [50, 150])
def test_an_event_counts_once_also_where_its_data_decide_which_destinations_get_it(settings, total):
    routes = [
        {"match": {"event_type": ["order.paid"], "data": {"total": [{"numeric": [">", 100]}]}}, "to": "bus"},
        {"match": {"event_type": ["order.paid"], "data": {"total": [{"numeric": [">", 0]}]}}, "to": "queue"},
    ]
    aliases = {alias: {"BACKEND": "tests.app.outside.Post"} for alias in ("bus", "queue")}
    settings.DUEBOX = {**settings.DUEBOX, "DESTINATIONS": aliases, "ROUTES": routes}
    duebox.emit("order.paid", {"total": total})
    claims = destinations.claim("default", a_lease(), {"to:bus": 5, "to:queue": 5}).claims
    assert len(claims) == (2 if total > 100 else 1)
    for claim in claims:
        measure([ended(claim)])
    assert metrics.PUBLISHED.read() == {("order.paid",): 1}
    assert sum(metrics.SUCCESS.read().values()) == len(claims)
