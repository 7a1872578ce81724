"""The database goes away while events are on their way outside, and one destination has just begun to fail."""

from __future__ import annotations

import pytest

import duebox
from duebox.exceptions import Undelivered
from duebox.models import Attempt, Delivery, DestinationState
from tests.support import eventually
from tests.worker.senders.conftest import destinations

__all__ = ["destinations"]

pytestmark = pytest.mark.crash
BREAKER = {"calls": 5, "share": 0.5, "window": 60.0, "pause": 0.5, "longest": 2.0}


def test_a_database_that_restarts_leaves_no_destination_behind(own_server, destinations, hire):
    policy = {"BREAKER": BREAKER, "RETRY": {"limit": 50, "first": 0.1, "factor": 1.0}}
    boxes = destinations(backend="Single", healthy=policy, ill=policy)
    boxes["healthy"].answers = 0.005
    boxes["ill"].answers = Undelivered("out of order")
    facts = duebox.emit_many([duebox.NewEvent(type="order.paid", data={"number": number}) for number in range(300)])
    hire()
    hire()
    eventually(lambda: len(boxes["healthy"].calls) > 20)
    for _ in range(2):
        own_server.restart()
        eventually(lambda: alive() and Delivery.objects.count(), 30)
    boxes["ill"].answers = None
    eventually(lambda: not Delivery.objects.exists(), 60)
    for name in ("healthy", "ill"):
        assert {fact.id for fact in boxes[name].facts} == {fact.id for fact in facts}
        delivered = Attempt.objects.filter(outcome="delivered", subscriber=f"to:{name}").values_list(
            "event_id", flat=True
        )
        assert sorted(delivered) == sorted(fact.id for fact in facts)
    assert not DestinationState.objects.filter(open_until__isnull=False).exists()


def alive():
    from django.db import OperationalError, connection

    try:
        connection.close()
        return Delivery.objects.exists() or True
    except OperationalError:
        return False
