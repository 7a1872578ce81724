"""Every destination with real worker processes: killed in the middle, and told to stop."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from django.test import override_settings

import duebox
from duebox.models import Attempt, Delivery
from tests.crash.stage import Processes
from tests.destinations.stages import all_stages
from tests.support import eventually

pytestmark = [
    pytest.mark.crash,
    pytest.mark.soak,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


@pytest.fixture
def processes(transactional_db):
    started = Processes()
    yield started
    print(started.logs())  # shown where a test fails
    started.end()


@pytest.fixture(params=all_stages(), ids=lambda stage: stage.__name__)
def stage(request, transactional_db):
    with request.param() as entered:
        yield entered


@pytest.fixture
def workers(stage, processes):
    """Starts workers that serve the stage's destination, and routes what is emitted here to it."""
    settings = {
        "UNDECLARED": "allow",
        "DESTINATIONS": {"there": stage.entry()},
        "ROUTES": [{"match": "*", "to": "there"}],
        "LEASE_SECONDS": 2,
        "SHUTDOWN_SECONDS": 10,
    }
    with override_settings(DUEBOX=settings):
        yield lambda: processes.worker(**settings)


def emit(count):
    """Orders of four customers, one after the other."""
    facts = duebox.emit_many(
        duebox.NewEvent(type="order.paid", data={"number": number}, about=("order", number % 4), organization="7")
        for number in range(count)
    )
    return [str(fact.id) for fact in facts]


def arrived(stage):
    return [each.id for each in stage.received()]


def test_what_a_killed_worker_held_arrives_by_another_with_the_same_ids(stage, workers):
    ids = emit(30)
    with stage.hanging():
        first = workers()
        eventually(lambda: Delivery.objects.filter(lease__isnull=False, subscriber__startswith="to:").exists(), 30)
        first.kill()
        first.wait()
    workers()
    eventually(lambda: set(arrived(stage)) >= set(ids), 60)
    assert set(arrived(stage)) == set(ids)
    eventually(lambda: not Delivery.objects.exists(), 60)
    assert Attempt.objects.filter(outcome="rescued").exists()
    assert not Attempt.objects.filter(outcome="dead").exists()


def test_a_worker_that_is_told_to_stop_leaves_nothing_behind_and_nothing_out(stage, workers):
    ids = emit(120)
    first = workers()
    eventually(lambda: arrived(stage), 30)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    assert not Delivery.objects.filter(lease__isnull=False).exists()
    workers()
    eventually(lambda: not Delivery.objects.exists(), 60)
    eventually(lambda: set(arrived(stage)) == set(ids), 30)
    delivered = Attempt.objects.filter(outcome="delivered", subscriber__startswith="to:").values_list(
        "event_id", flat=True
    )
    assert Counter(map(str, delivered)) == Counter(ids)
