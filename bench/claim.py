"""Claim cost: a hundred due rows among many that are not due yet."""

from __future__ import annotations

import statistics
import time

from django.db import connection

from bench import stage
from duebox.store import deliveries, leases

DUE = 100


def claim_in_turns(few: int, many: int, turns: int = 3) -> tuple[float, float]:
    """Milliseconds for each, measured in turns: one pair alone came out anywhere between 0.6 and 1.3."""
    pairs = [(claim_ms(few), claim_ms(many)) for _ in range(turns)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def claim_ms(future_rows: int, rounds: int = 40) -> float:
    stage.empty()
    _future(future_rows)
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
    return sorted(times)[len(times) // 2]


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
        duebox.New(type="bench.plain", data=stage.PAYLOAD, about=("account", number)) for number in range(DUE)
    )
