from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from duebox.models import Delivery

pytestmark = pytest.mark.django_db


def a_delivery(**options):
    return Delivery.objects.create(**{"event_id": uuid4(), "subscriber": "it", "due_at": timezone.now(), **options})


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({}, "due"),
        ({"due_at": timezone.now() + timedelta(hours=1)}, "scheduled"),
        ({"lease": 1}, "running"),
        ({"attempt": 1, "due_at": timezone.now() + timedelta(hours=1)}, "retrying"),
        ({"status": "waiting", "stream": "a:1"}, "waiting"),
        ({"status": "dead", "attempt": 4}, "dead"),
    ],
)
def test_the_state_is_the_word_a_person_would_use(options, state):
    made = a_delivery(**options)
    found = Delivery.objects.with_state().get()
    assert found.state == state
    assert str(found) == f"{made.event_id} to it: {state}"


def test_without_the_question_the_state_is_the_status_or_running():
    assert str(a_delivery()).endswith("to it: pending")
    assert str(a_delivery(lease=3)).endswith("to it: running")


def test_the_dead_and_the_blocked_can_be_asked_for():
    dead, blocked, _ = a_delivery(status="dead"), a_delivery(status="waiting", stream="a:1"), a_delivery()
    assert list(Delivery.objects.dead()) == [dead]
    assert list(Delivery.objects.blocked()) == [blocked]


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "lost"},
        {"status": "dead", "lease": 1},
        {"status": "waiting", "stream": "a:1", "lease": 1},
        {"status": "waiting", "stream": None},
        {"subscriber": ""},
    ],
)
def test_the_database_refuses_a_state_that_cannot_be(wrong):
    with pytest.raises(IntegrityError, match="duebox_delivery_"), transaction.atomic():
        a_delivery(**wrong)
