"""Claim cost: a hundred due rows among many that are not due yet."""

from __future__ import annotations

import statistics
import time

from django.db import connection

from bench import stage
from duebox.store import deliveries, leases

DUE = 100


def claim_at(few: int, many: int, *, rounds: int = 60) -> tuple[float, float]:
    """Milliseconds for each number of rows that are not due; the medians, before and after the others were added to
    the same table."""
    stage.empty()
    _future(few)
    at_few = _claim(rounds)
    _future(many - few)
    return at_few, _claim(rounds)


def _claim(rounds: int) -> float:
    lease = leases.take("default", 3600)
    times = []
    for number in range(rounds + 5):
        stage_due()
        started = time.perf_counter()
        claims = deliveries.claim("default", lease, ["plain"], DUE).claims
        if number >= 5:
            times.append((time.perf_counter() - started) * 1000)
        assert len(claims) == DUE
        deliveries.settle("default", lease, [deliveries.Ended(each, None, 0.0, 0.0) for each in claims])
    return statistics.median(times)


def _future(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO duebox_delivery (event_id, subscriber, due_at)
            SELECT gen_random_uuid(), 'plain', now() + interval '1 day' + number * interval '1 second'
            FROM generate_series(1, %s) AS number""",
            [count],
        )
    stage.settle_down()


def stage_due() -> None:
    import duebox

    duebox.emit_many(
        duebox.NewEvent(type="bench.plain", data=stage.PAYLOAD, about=("account", number)) for number in range(DUE)
    )
