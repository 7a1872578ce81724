from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

import duebox
from duebox.models import Attempt
from duebox.testing import drain

pytestmark = pytest.mark.django_db


def test_an_attempt_tells_when_it_was_due_started_and_settled_and_how_long_it_took(on):
    on("member.invited", name="it")(lambda event: None)
    before = timezone.now()
    fact = duebox.emit("member.invited")
    drain()
    told = Attempt.objects.get()
    assert (told.event_id, told.subscriber, told.number, told.outcome) == (fact.id, "it", 1, "delivered")
    assert before <= told.due_at <= told.started_at <= told.settled_at <= timezone.now()
    assert 0 <= told.took_ms < 5_000
    assert str(told) == f"{fact.id} to it, attempt 1: delivered"


def test_the_database_refuses_an_unknown_outcome():
    with pytest.raises(IntegrityError, match="duebox_attempt_known_outcome"), transaction.atomic():
        Attempt.objects.create(
            event_id="01920000-0000-7000-8000-000000000001", delivery_id=1, number=1, outcome="so-so",
            subscriber="it", due_at=timezone.now(),
        )  # fmt: skip
