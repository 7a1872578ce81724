"""A death is told exactly once, whenever the worker is killed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from django.db import connection

import duebox
from duebox.models import Attempt, Delivery, Event
from tests.crash.stage import Processes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

ALARM = {
    "DESTINATIONS": {"alarm": {"BACKEND": "tests.app.outside.Post"}},
    "ROUTES": [{"match": "duebox.delivery.dead", "to": "alarm"}],
    "LEASE_SECONDS": 1,
}


def notices() -> list[Event]:
    return list(Event.objects.filter(type="duebox.delivery.dead"))


def deaths() -> Counter[int]:
    return Counter(Attempt.objects.filter(outcome="dead").values_list("delivery_id", flat=True))


def told() -> Counter[int]:
    return Counter(event.data["delivery_id"] for event in notices())


def deaths_seen() -> int:
    """In one glance: whoever sees a death sees the notice of it, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM duebox_attempt WHERE outcome = 'dead'), "
            "(SELECT count(*) FROM duebox_event WHERE type = 'duebox.delivery.dead')"
        )
        died, notified = cursor.fetchone()
    assert died == notified
    return int(died)


def test_each_death_is_told_once_although_workers_are_killed_right_after_settlements(processes: Processes) -> None:
    many, rounds, seen = 600, 3, 0
    chance = random.Random(5)
    duebox.emit_many(duebox.NewEvent(type="mortal.born", data={"number": number}) for number in range(many))
    for _ in range(rounds):
        worker = processes.worker(**ALARM)
        goal = seen + chance.randint(1, 40)
        wait_until(lambda goal=goal: deaths_seen() >= goal, 60, "more deaths", processes.logs)
        worker.kill()  # the last settlement is milliseconds old, and its notice has not reached anybody
        worker.wait()
        seen = deaths_seen()
    assert seen < many, "it was over before the last worker was killed"
    processes.worker(**ALARM)
    wait_until(lambda: deaths_seen() == many, 120, "all deaths", processes.logs)
    wait_until(lambda: Delivery.objects.count() == many, 120, "the word to the alarm", processes.logs)
    assert told() == deaths() == Counter(Delivery.objects.values_list("id", flat=True))
    words = Attempt.objects.filter(subscriber="to:alarm", outcome="delivered")
    reached = Counter(words.values_list("event_id", flat=True))
    assert reached == Counter(event.id for event in notices())


def test_a_delivery_that_kills_its_workers_is_told_once_by_the_survivors(processes: Processes) -> None:
    options = {**ALARM, "RESCUE_LIMIT": 2}
    duebox.emit("poison.taken", organization="acme")
    for _ in range(2):
        worker = processes.worker(**options)
        wait_until(lambda worker=worker: worker.poll() is not None, 30, "the death of the worker", processes.logs)
    for _ in range(2):
        processes.worker(**options)
    reached = Attempt.objects.filter(subscriber="to:alarm", outcome="delivered")
    wait_until(reached.exists, 30, "the word to the alarm", processes.logs)
    (notice,) = notices()
    assert notice.data["delivery_id"] == Delivery.objects.dead().get().id
    assert (notice.organization, notice.data["fingerprint"]) == ("acme", "worker-lost")
