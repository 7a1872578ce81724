"""Order per aggregate where handlers fail now and then, at full size."""

from __future__ import annotations

import random

import pytest

import duebox
from duebox.models import Attempt, Delivery
from tests.support import eventually

EVENTS, AGGREGATES, SHARE_FAILING = 10_000, 100, 0.05


@pytest.mark.soak
def test_two_workers_keep_the_order_of_each_aggregate_while_handlers_fail(hire, on):
    seen: dict[str, list[int]] = {}

    @on(
        "ledger.filled",
        name="ordered",
        ordered=True,
        atomic=False,
        retry=duebox.Retry(limit=50, first=0.01, factor=1.0),
    )
    def note(event):
        if random.random() < SHARE_FAILING:
            raise ConnectionError("now and then")
        seen.setdefault(event.about[1], []).append(event.data["number"])

    for start in range(0, EVENTS, 1000):
        duebox.emit_many(
            duebox.NewEvent(
                type="ledger.filled", data={"number": number // AGGREGATES}, about=("ledger", number % AGGREGATES)
            )
            for number in range(start, start + 1000)
        )
    hire()
    hire()
    eventually(lambda: not Delivery.objects.exists(), 120)
    assert len(seen) == AGGREGATES
    assert all(numbers == list(range(EVENTS // AGGREGATES)) for numbers in seen.values())
    assert Attempt.objects.filter(outcome="retried").count() > EVENTS * SHARE_FAILING / 2
