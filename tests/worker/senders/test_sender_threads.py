"""Who hangs, hangs alone."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

import duebox
from duebox.models import Attempt, Delivery
from tests.app.outside import Single
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)

HUNG = [f"hung{number}" for number in range(24)]


def test_one_that_nobody_knows_yet_does_not_wait_for_a_crowd_that_is_known_to_hang(destinations, hire):
    boxes = destinations(parts={"KIND": "Parts", "CONCURRENCY": 2})
    free = threading.Event()

    def hang(fact):
        return 1.1 if fact.data["first"] else free.wait(30) and None

    for name in HUNG:
        Single(f"parts/{name}", answers=hang)
    duebox.emit("letter.sent", {"letters": HUNG, "first": True})
    hire()
    eventually(lambda: Attempt.objects.filter(subscriber__startswith="to:").count() == len(HUNG))
    try:
        for _ in range(2):
            duebox.emit("letter.sent", {"letters": HUNG, "first": False})
        eventually(lambda: sum(len(boxes[f"parts/{name}"].calls) for name in HUNG) > len(HUNG))
        duebox.emit("letter.sent", {"letters": ["new"], "first": False})
        eventually(lambda: (box := boxes.get("parts/new")) and box.calls, seconds=10)
        assert not free.is_set()
    finally:
        free.set()


def test_what_goes_wrong_outside_of_the_destination_waits_and_is_in_the_history(destinations, hire, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("a mistake in Duebox")

    monkeypatch.setattr("duebox.worker.senders.sender_threads.send", fail)
    destinations()
    duebox.emit("letter.sent")
    hire()
    first = eventually(lambda: Attempt.objects.first())
    assert first.outcome == "retried"
    assert "RuntimeError: a mistake in Duebox" in first.note
    assert Delivery.objects.get().due_at > timezone.now() + timedelta(seconds=30)
